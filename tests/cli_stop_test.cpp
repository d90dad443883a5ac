// How commands end when they are stopped, when the disk is full, and when numbers stop being numbers.
#include <sys/stat.h>

#include "base/json.h"
#include "cli_call.h"
#include "gguf/gguf.h"

using fewbit::Json;
using namespace fewbit;
using namespace fewbit::cli_test;

namespace {

std::string many_ids(int n) {
  std::string s = "1";
  for (int i = 1; i < n; i++) s += "," + std::to_string(i % 4000);
  return s;
}

std::string long_text(size_t bytes) {
  std::string s;
  while (s.size() < bytes) s += "The fox walked slowly over the hill and saw a lantern in the field, where twelve birds were asleep. ";
  return s;
}

}  // namespace

TEST(Stop, CtrlCEndsEveryLongCommandCleanly) {
  Folder folder;
  const std::string text = folder.file("text"), kl = folder.file("kl"), npy = folder.file("npy"), gguf = folder.file("gguf");
  std::ofstream(text) << long_text(120'000);
  const struct {
    std::string args, sign, says;
  } cases[] = {
      {"run -v -c 30000 -n 5 -f " + text + " -m " + hybrid, "loaded", "cancelled"},
      {"run -v -c 30000 --ignore-eos -p x -m " + dense, "loaded", "cancelled"},
      {"eval -v -c 25000 --logits " + npy + " --tokens " + many_ids(20000) + " -m " + dense, "loaded", "of 20000 tokens"},
      {"eval -v -c 30000 --greedy 29000 --tokens 1 -m " + dense, "loaded", "of 29000 further tokens"},
      {"perplexity -v -f " + text + " --kl-save " + kl + " -m " + dense, "loaded", "windows"},
      {"bench -v -p 4096 -n 4096 -r 100 -o json -m " + dense, "loaded", "after 0 of 2 cases"},
      {"batched-bench -v -npp 4096 -ntg 1024 -npl 8 -m " + dense, "loaded", "after 0 of 1 cases"},
      {"launches -v -c 30000 -d 29000 -m " + dense, "loaded", "while filling"},
      {"ceiling --seconds 60", "", "cancelled"},
      {"verify --mutate", "", "cancelled after"},
      {"synth qwen3-8b Q4_0 " + gguf, "", "was not written"},
      {"run -p x --synthetic qwen3-8b:PQ2_0", "memory", "cancelled while"},
  };
  for (const auto& c : cases) {
    Outcome r = interrupt(c.args, c.sign);
    const std::string short_args = c.args.substr(0, 80);
    EXPECT_EQ(r.code, 130) << short_args << "\n" << r.err;
    EXPECT_NE(last_line(r.err).find(c.says), std::string::npos) << short_args << "\n" << r.err;
    EXPECT_LE(lines(r.err), 4) << short_args << "\n" << r.err;  // a context beyond the trained one, the plan, "loaded", and how it ended
    EXPECT_EQ(folder.files(), 1) << short_args;
  }
}

// While it loads nothing is written; where the load was quicker than the signal, what was collected is kept.
TEST(Stop, CtrlCWhileImatrixLoads) {
  Folder folder;
  const std::string text = folder.file("text"), gguf = folder.file("gguf");
  std::ofstream(text) << long_text(120'000);
  Outcome r = interrupt("imatrix -o " + gguf + " -f " + text + " --synthetic qwen3-8b:PQ2_0 --layers 12", "memory");
  EXPECT_EQ(r.code, 130) << r.err;
  const bool early = last_line(r.err).find("before the first chunk") != std::string::npos;
  EXPECT_TRUE(early || last_line(r.err).find("stopped after 1 of ") != std::string::npos) << r.err;
  EXPECT_EQ(folder.files(), early ? 1 : 2) << r.err;
}

TEST(Stop, ACancelledRunCountsWhatItRead) {
  Folder folder;
  std::ofstream(folder.file("text")) << long_text(120'000);
  Outcome r = interrupt("run -v --raw -c 30000 -f " + folder.file("text") + " -m " + dense, "loaded");
  const std::string line = last_line(r.err);
  int read = -1;
  ASSERT_EQ(std::sscanf(line.c_str(), "fewbit: %d prompt tokens", &read), 1) << line;
  EXPECT_LT(read, 25'000) << line;  // of more than 26,000
  EXPECT_NE(line.find(" 0 tokens at"), std::string::npos) << line;
}

TEST(Stop, AFullDiskLeavesNothing) {
  Folder folder;
  std::ofstream(folder.file("text")) << long_text(60'000);
  const std::string limit = "ulimit -f 100; ";  // 50 or 100 KiB: stands for a full disk
  for (const std::string& args : {"synth smollm2-135m Q4_0 --layers 1 " + folder.file("out"),
                                  "perplexity --chunks 2 -f " + folder.file("text") + " -m " + dense + " --kl-save " + folder.file("out"),
                                  "eval --tokens " + many_ids(20) + " -m " + dense + " --logits " + folder.file("out"),
                                  "quantize " + dense + " " + folder.file("out") + " PQ2_0 --allow-requantize"}) {
    Outcome r = call(args, "", limit);
    EXPECT_EQ(r.code, 1) << args << "\n" << r.err;
    EXPECT_EQ(lines(r.err), args.starts_with("synth") || args.starts_with("quantize") ? 1 : 2) << args << "\n" << r.err;
    EXPECT_NE(last_line(r.err).find(folder.file("out")), std::string::npos) << r.err;
    EXPECT_EQ(folder.files(), 1) << args;
  }
}

TEST(Stop, DevicesAndPipesAreWrittenToNotReplaced) {
  Folder folder;
  const std::string v = std::string(FEWBIT_SOURCE_DIR) + "/tests/data/vectors/";
  for (const std::string& args : {std::string("synth smollm2-135m Q4_0 --layers 1 "), "decode --type PQ2_0 " + v + "PQ2_0.packed.bin ",
                                  "eval --tokens 1 -m " + dense + " --logits "}) {
    EXPECT_EQ(call(args + "/dev/null").code, 0) << args;
    Outcome full = call(args + "/dev/full");
    EXPECT_EQ(full.code, 1) << args;
    EXPECT_NE(last_line(full.err).find("/dev/full: cannot write"), std::string::npos) << full.err;
    for (const char* device : {"/dev/null", "/dev/full"}) {
      struct stat st;
      ASSERT_EQ(stat(device, &st), 0);
      EXPECT_TRUE(S_ISCHR(st.st_mode)) << device;
    }
    // A pipe: what comes out is the file.
    const std::string pipe = folder.file("pipe"), copy = folder.file("copy"), plain = folder.file("plain");
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    EXPECT_EQ(call(args + pipe, "", "cat " + pipe + " > " + copy + " & ").code, 0) << args;
    EXPECT_EQ(call(args + plain).code, 0) << args;
    for (int i = 0; i < 100 && slurp(copy).size() < slurp(plain).size(); i++) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(slurp(copy), slurp(plain)) << args;
    fs::remove(pipe);
  }
  // A link stays a link.
  fs::create_symlink("plain", folder.file("link"));
  ASSERT_EQ(call("decode --type PQ2_0 " + v + "PQ2_0.packed.bin " + folder.file("link")).code, 0);
  EXPECT_TRUE(fs::is_symlink(folder.file("link")));
  EXPECT_EQ(slurp(folder.file("plain")), slurp(v + "PQ2_0.f32.bin"));
  Outcome dir = call("decode --type PQ2_0 " + v + "PQ2_0.packed.bin " + folder.path.string());
  EXPECT_EQ(dir.code, 1);
  EXPECT_EQ(lines(dir.err), 1);
}

// Weights that are no numbers: one line that says where they were met.
TEST(NonFinite, IsReportedOnceAndNamesTheLayer) {
  Folder folder;
  auto file = gguf::File::open(dense);
  ASSERT_TRUE(file.ok());
  const std::string good = slurp(dense);
  std::ofstream(folder.file("text")) << long_text(4000);
  for (const auto& [tensor, says] : {std::pair{"blk.1.ffn_down.weight", "the output of layer 1"},
                                     {"blk.2.attn_q.weight", "the output of layer 2"},
                                     {"blk.0.ffn_norm.weight", "the output of layer 0"}}) {
    const gguf::Tensor* t = file->tensor(tensor);
    ASSERT_TRUE(t) << tensor;
    const size_t at = good.find(std::string_view(reinterpret_cast<const char*>(t->data.data()), 256));
    ASSERT_NE(at, std::string::npos);
    std::string bad = good;
    bad.replace(at, 64, 64, '\xff');  // wherever the block's scale lies, it is not a number now
    const std::string model = folder.file("bad.gguf");
    std::ofstream(model, std::ios::binary) << bad;
    std::vector<std::string> commands{"run -n 5 -p hello", "eval --tokens 1,2 --exact"};
    if (tensor == std::string("blk.1.ffn_down.weight")) {
      commands.insert(commands.end(), {"eval --tokens 1,2,3", "eval --tokens 1 --greedy 5", "bench -p 8 -n 0 -r 1",
                                       "perplexity -c 64 -f " + folder.file("text")});
    }
    for (const std::string& args : commands) {
      Outcome r = call(args + " -m " + model);
      EXPECT_EQ(r.code, 1) << args << " " << tensor << "\n" << r.err;
      EXPECT_EQ(lines(r.err), 2) << args << " " << tensor << "\n" << r.err;  // the plan, and this
      EXPECT_NE(r.err.find(says), std::string::npos) << args << " " << tensor << "\n" << r.err;
    }
    Outcome check = call("inspect --check " + model);
    EXPECT_EQ(check.code, std::string(tensor).find("norm") == std::string::npos ? 1 : check.code) << tensor;
  }
}

TEST(Perplexity, OfAModelAgainstItselfIsAtDistanceZero) {
  Folder folder;
  std::ofstream(folder.file("text")) << long_text(3000);
  const std::string args = "perplexity --json -c 128 -f " + folder.file("text") + " -m " + dense;
  Outcome save = call(args + " --kl-save " + folder.file("kl"));
  ASSERT_EQ(save.code, 0) << save.err;
  Json own = Json::parse(call(args + " --kl-base " + folder.file("kl")).out);
  EXPECT_LT(own["kl"]["max"].get<double>(), 1e-9);
  EXPECT_EQ(own["kl"]["same_top"].get<double>(), 1);
  EXPECT_EQ(own["kl"]["base_perplexity"], own["perplexity"]);
  EXPECT_EQ(own["perplexity"], Json::parse(save.out)["perplexity"]);
  // Several windows at once change nothing, and fewer of them are allowed.
  EXPECT_EQ(Json::parse(call(args + " -b 512").out)["perplexity"], own["perplexity"]);
  EXPECT_LT(Json::parse(call(args + " -b 512 --chunks 2 --kl-base " + folder.file("kl")).out)["kl"]["max"].get<double>(), 1e-9);
  // The exact path differs a little.
  Json exact = Json::parse(call(args + " --exact --kl-base " + folder.file("kl")).out);
  EXPECT_GT(exact["kl"]["mean"].get<double>(), 1e-9);
  EXPECT_LT(exact["kl"]["mean"].get<double>(), 1e-2);
  // What is no such file, or another's.
  for (const std::string& bad :
       {" --kl-base " + folder.file("text"), std::string(" --kl-base /no/such"), " -c 64 --kl-base " + folder.file("kl")}) {
    Outcome r = call(args + bad);
    EXPECT_NE(r.code, 0) << bad;
    EXPECT_NE(last_line(r.err).find("fewbit:"), std::string::npos) << r.err;
  }
  fs::resize_file(folder.file("kl"), fs::file_size(folder.file("kl")) - 1000);
  EXPECT_NE(last_line(call(args + " --kl-base " + folder.file("kl")).err).find("ends too early"), std::string::npos);
}
