// The contract of the command line (docs/cli.md): exit codes, one-line errors, keys that scripts read.
#include <sys/stat.h>

#include "base/json.h"
#include "cli_call.h"

using fewbit::Json;
using namespace fewbit::cli_test;

TEST(Cli, WrongCallsExitTwoWithOneLineThatNamesTheOption) {
  const struct {
    const char *args, *names;
  } cases[] = {
      {"bogus", "bogus"},
      {"run --no-such-option", "--no-such-option"},
      {"run", "-p"},
      {"eval --tokens 1,x", "'x'"},
      {"eval --tokens 1,99999999 --exact", "99999999"},
      {"eval --tokens 1 --ubatch -3", "--ubatch"},
      {"eval --tokens 1 -t 0", "-t: '0'"},
      {"eval --tokens 1 -ctk q5_0", "-ctk"},
      {"eval --tokens 1 -ctk", "ctk"},
      {"decode --type Q9_9 a b", "Q9_9"},
      {"bench -o yaml", "yaml"},
      {"bench -p 0 -n 0", "nothing to measure"},
      {"run -p x --temp hot", "--temp"},
      {"synth no-such-shape PQ2_0 /tmp/x", "no-such-shape"},
      {"perplexity", "-f"},
      {"help nothing", "nothing"},
      {"eval --tokens 1 --device abacus", "--device"},
      {"run -p x --synthetic foo:Q2_0", "--synthetic"},
  };
  for (const auto& c : cases) {
    Outcome r = call(c.args);
    EXPECT_EQ(r.code, 2) << c.args << "\n" << r.err;
    EXPECT_EQ(lines(r.err), 1) << c.args << "\n" << r.err;
    EXPECT_NE(r.err.find(c.names), std::string::npos) << c.args << "\n" << r.err;
    EXPECT_EQ(r.out, "") << c.args;
  }
}

// Every kind of value: the option as it was typed, and what is allowed.
TEST(Cli, BadValuesNameTheOptionAsTypedAndTheRange) {
  const struct {
    const char *args, *names, *allowed;
  } cases[] = {
      {"run -p x --temp nan", "--temp: 'nan'", "0 to 100"},
      {"run -p x --temp inf", "--temp: 'inf'", "0 to 100"},
      {"run -p x --temp -1", "--temp: '-1'", "0 to 100"},
      {"run -p x --top-p nan", "--top-p: 'nan'", "0 to 1"},
      {"chat --min-p=-nan", "--min-p: '-nan'", "0 to 1"},
      {"run -p x --repeat-penalty inf", "--repeat-penalty", "0.01 to 100"},
      {"run -p x --presence-penalty nan", "--presence-penalty", "-100 to 100"},
      {"chat --frequency-penalty 1e999", "--frequency-penalty", "-100 to 100"},
      {"ceiling --seconds nan", "--seconds", "0.1 to 60"},
      {"ab --plant nan x y", "--plant", "finite"},
      {"ab --seconds inf x y", "--seconds", ""},
      {"ab --limit nan x y", "--limit: 'nan'", "0.1 to 86400"},
      {"ab --plant 0.1 --op moe_glu x y", "--plant", "matmul"},
      {"ab --type IQ2_XS --shape 16x128 x y", "--shape: 128 inputs", "256 (IQ2_XS)"},
      {"ab --list --plant 0.1", "--list", "--plant"},
      {"ab --list --cols 4", "--list", "--cols"},
      {"ab --list scalar", "--list", "A"},
      {"ab --worker --pairs 5", "--worker", "--pairs"},
      {"ab --worker --cols 1,2", "--worker", "lists"},
      {"ab --experts 4 scalar scalar", "--experts: '4'", "moe_down"},
      {"ab --shape 16,32x128 scalar scalar", "--shape: '16,32x128'", "one ROWSxINPUTS"},
      {"ab --limit 5 scalar scalar", "--limit", "builds"},
      {"ab --plant 0.02 --shape 3x128 scalar scalar", "--plant: 0.02 of 3 rows", "tiles of 16 are planted: 1 of 1"},
      {"ab --plant 0.1 --shape 32x128 scalar scalar", "--plant: 0.1 of 32 rows", "1 of 2, a share of 0.5"},
      {"verify --quick --list", "--quick", "--list"},
      {"ab --type PQ2_0 scalar /nonexistent/fewbit", "'/nonexistent/fewbit'", "program"},
      {"verify --op nonsense", "--op: 'nonsense'", "matmul"},
      {"run -p x --seed 99999999999999999999", "--seed: '99999999999999999999'", "9223372036854775807"},
      {"synth qwen3-0.6b Q2_0 /dev/null --seed -1", "--seed", "0 to"},
      {"run -p x -t 0", "-t: '0'", "1 to"},
      {"run -p x --threads=abc", "--threads: 'abc'", "1 to"},
      {"run -p x -t 1024000", "-t: '1024000'", "cores"},
      {"bench -t 1,99999", "-t: '99999'", "cores"},
      {"quantize a b PQ2_0 -t 99999", "-t", "1 to"},
      {"eval --tokens 1 -ub 0", "-ub: '0'", "1 to 65536"},
      {"eval --tokens 1 --ubatch-size 70000", "--ubatch-size: '70000'", "1 to 65536"},
      {"eval --tokens 1 -c -5", "-c: '-5'", "0 to"},
      {"eval --tokens 1 -ngl many", "-ngl: 'many'", "-1 to"},
      {"eval --tokens 1 -ngl 0 --device cuda", "-ngl 0", "--device is cuda"},
      {"run -p x -n 1e3", "-n: '1e3'", "-1 to"},
      {"run -p x -n 0x10", "-n: '0x10'", "-1 to"},
      {"run -p x -n ''", "-n", ""},
      {"encode --type PQ2_0 --row 0 a b", "--row: '0'", "1 to 1099511627776"},
      {"tokenize -m '' x", "-m: must not be empty", ""},
      {"eval --tokens 1 --logits ''", "--logits: must not be empty", ""},
      {"run -p x --stop ''", "--stop: must not be empty", ""},
      {"eval -p ''", "-p: must not be empty", ""},
      {"run --file=", "--file", ""},
      {"eval --tokens '' -p x", "--tokens", ""},
      {"tokenize --pre foo x", "--pre: pre-tokeniser 'foo'", "llama-bpe"},
      {"detokenize --pre foo 1", "--pre: pre-tokeniser 'foo'", "llama-bpe"},
      {"perplexity -f x -c 3", "-c 3", "at least 4"},
      {"bench -p 64 -n 0 -c 8", "-c 8", "64"},
      {"run -p x --exact=7", "--exact: takes no value", ""},
      {"run -p x -c", "-c: a value is missing", ""},
      {"run -p x -t 1 -t 2", "-t: given more than once", ""},
      {"--foo", "unknown option '--foo'", "run"},
      {"-v", "a command is required", "run"},
      {"run --foo 3 -p x", "unknown option '--foo'", "fewbit run --help"},
      {"chat --sys x -p y", "unknown option '-p'", "fewbit chat --help"},
      {"run extra -p x", "unexpected argument 'extra'", ""},
      {"decode --type PQ2_0 a b c", "unexpected argument 'c'", "IN OUT"},
      {"tokenize hello world", "unexpected argument 'world'", "TEXT"},
      {"synth PQ2_0 qwen3-0.6b /dev/null", "SHAPE: 'PQ2_0'", "SHAPE TYPE OUT"},
      {"synth qwen3-0.6b /dev/null PQ2_0", "TYPE: unknown type '/dev/null'", "PQ2_0"},
      {"help run chat", "unexpected argument 'chat'", ""},
  };
  for (const auto& c : cases) {
    Outcome r = call(c.args);
    EXPECT_EQ(r.code, 2) << c.args << "\n" << r.err;
    EXPECT_EQ(lines(r.err), 1) << c.args << "\n" << r.err;
    for (const char* part : {c.names, c.allowed}) EXPECT_NE(r.err.find(part), std::string::npos) << c.args << ": " << part << "\n" << r.err;
    EXPECT_EQ(r.out, "") << c.args;
  }
}

TEST(Cli, PositionsBeyondTheModelAreRefused) {
  for (const char* args : {"eval --tokens 1 --greedy 1000000", "launches -d 4000000", "eval --tokens 1,2,3 --greedy 9 -c 5"}) {
    Outcome r = call(args + std::string(" -m ") + dense);
    EXPECT_EQ(r.code, 1) << args << "\n" << r.err;
    EXPECT_EQ(lines(r.err), 1) << args << "\n" << r.err;
    EXPECT_NE(r.err.find("-c"), std::string::npos) << args << "\n" << r.err;
    EXPECT_NE(r.err.find("positions are needed"), std::string::npos) << args << "\n" << r.err;
  }
}

TEST(Cli, BadFilesExitOneWithOneLineThatNamesThem) {
  const std::string garbage = testing::TempDir() + "fewbit_garbage.gguf";
  std::ofstream(garbage) << "GGUX this is not a model file at all";
  for (const std::string& args : {std::string("inspect /no/such/file.gguf"), "inspect " + garbage, "eval --tokens 1 -m " + garbage,
                                  std::string("run -p x -m /no/such/file.gguf"), "tokenize -m " + garbage + " x",
                                  std::string("decode --type PQ2_0 /no/such/file /dev/null"), std::string("perplexity -f /no/such/file"),
                                  std::string("template /no/such/file"), std::string("run -f /no/such/file"), std::string("inspect /tmp"),
                                  std::string("eval --tokens 1 --device cuda:77")}) {
    Outcome r = call(args);
    EXPECT_EQ(r.code, 1) << args << "\n" << r.err;
    EXPECT_EQ(lines(r.err), 1) << args << "\n" << r.err;
    EXPECT_EQ(r.out, "") << args;
  }
}

TEST(Cli, HelpAndVersionExitZero) {
  EXPECT_EQ(call("--version").code, 0);
  EXPECT_NE(call("--version").out.find("compiler"), std::string::npos);
  EXPECT_EQ(call("help").code, 0);
  for (const char* c : {"run", "chat", "eval", "tokenize", "detokenize", "template", "inspect", "decode", "encode", "synth", "devices",
                        "bench", "perplexity"}) {
    Outcome r = call(std::string(c) + " --help");
    EXPECT_EQ(r.code, 0) << c;
    EXPECT_NE(r.out.find(c), std::string::npos) << c;
    EXPECT_EQ(call(std::string("help ") + c).out, r.out);
  }
}

TEST(Cli, EvalContinuesGreedilyAndWritesLogits) {
  const std::string npy = testing::TempDir() + "fewbit_logits.npy";
  Outcome r = call("eval -m " + dense + " --tokens 1,2,3 --greedy 4 --json --logits " + npy);
  ASSERT_EQ(r.code, 0) << r.err;
  Json j = Json::parse(r.out);
  EXPECT_EQ(j["greedy"].size(), 4u);
  const std::string file = slurp(npy);
  EXPECT_EQ(file.substr(0, 6), "\x93NUMPY");
  EXPECT_NE(file.find("(3, 8192)"), std::string::npos);
  EXPECT_EQ((file.size() - 3 * 8192 * 4) % 64, 0u);
  Outcome one = call("eval -m " + dense + " --tokens 1,2,3 --greedy 4 --json --ubatch 1 -t 1");
  EXPECT_EQ(Json::parse(one.out)["greedy"], j["greedy"]);
}

TEST(Cli, RunGivesTheSameTextForASeed) {
  const std::string args = "run -m " + dense + " -n 12 -p Hello --seed 5 --temp 0.9";
  Outcome a = call(args), b = call(args + " -t 1");
  ASSERT_EQ(a.code, 0) << a.err;
  EXPECT_FALSE(a.out.empty());
  EXPECT_EQ(a.out, b.out);
  EXPECT_NE(a.err.find("tok/s"), std::string::npos);
}

TEST(Cli, TokensGoThereAndBack) {
  Outcome ids = call("tokenize -m " + dense + " 'A fox, 12 lanterns!'");
  ASSERT_EQ(ids.code, 0) << ids.err;
  std::string list = ids.out.substr(0, ids.out.find('\n'));
  EXPECT_EQ(call("detokenize -m " + dense + " '" + list + "'").out, "A fox, 12 lanterns!");
  EXPECT_EQ(call("tokenize -m " + dense + " -f -", "A fox, 12 lanterns!").out, ids.out);
}

TEST(Cli, InspectAndBenchSpeakJson) {
  Json i = Json::parse(call("inspect --json " + dense).out);
  for (const char* key : {"architecture", "variant", "metadata", "tensors", "bits_per_weight"}) EXPECT_TRUE(i.contains(key)) << key;
  for (const Json& t : i["tensors"]) { EXPECT_TRUE(t["shape"].size() < 2 || t.contains("kernel") || t.contains("refusal")) << t.dump(); }
  Json b = Json::parse(call("bench -m " + dense + " -p 8 -n 4 -r 2 -o json").out);
  ASSERT_EQ(b.size(), 2u);
  for (const char* key : {"model_type", "n_prompt", "n_gen", "n_depth", "n_threads", "avg_ts", "stddev_ts", "samples_ts", "bytes_per_token",
                          "read_gb_s", "share_of_read", "device", "cpu"}) {
    EXPECT_TRUE(b[1].contains(key)) << key;
  }
}

TEST(Cli, ABrokenKernelIsRefusedByName) {
  ASSERT_EQ(setenv("FEWBIT_TEST_BREAK", "gemv.PQ2_0/", 1), 0);
  const Outcome broken = call("eval -m " + dense + " --tokens 1,2");
  setenv("FEWBIT_TEST_BREAK", "gemv.NOTHING/", 1);
  const Outcome whole = call("eval -m " + dense + " --tokens 1,2");
  unsetenv("FEWBIT_TEST_BREAK");
  EXPECT_EQ(broken.code, 1);
  EXPECT_EQ(lines(broken.err), 1) << broken.err;
  EXPECT_NE(broken.err.find("kernel 'gemv.PQ2_0/"), std::string::npos) << broken.err;
  EXPECT_EQ(whole.code, 0) << whole.err;
}

TEST(Cli, VerifyListsWithoutAVerdict) {
  Outcome r = call("verify --list --op matmul --type IQ2_XS -o csv");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find(",LISTED,"), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find(",OK,"), std::string::npos) << r.out;
  r = call("verify --list --mutate --op matmul --type IQ2_XS");
  EXPECT_NE(r.out.find("wrong grid row"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("rows, not run"), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find("caught"), std::string::npos) << r.out;
  for (const char* o : {"-o json", "--every 3", "--all", "--list"}) EXPECT_EQ(call(std::string("verify --quick ") + o).code, 2) << o;
}

// The self-test finds no memory: one line, not the end of the process.
TEST(Cli, NoMemoryForTheSelfTestIsSaid) {
  for (const char* args : {"run -p hi -n 3", "verify --every 50", "verify --quick"}) {
    for (const char* limit : {"ulimit -v 40000; ", "ulimit -v 45000; "}) {
      const Outcome r = call(args, "", limit);
      if (r.code == 0 || r.err.find("error while loading shared libraries") != std::string::npos) continue;
      EXPECT_EQ(r.code, 1) << args << "\n" << r.err;
      EXPECT_LE(lines(r.err), 2) << args << "\n" << r.err;
      EXPECT_EQ(r.err.find("check failed"), std::string::npos) << args << "\n" << r.err;
    }
  }
}

TEST(Cli, AShapeBeyondTheMemoryIsNamedWithItsNumbers) {
  const Outcome r = call("ab --type PQ2_0 --shape 16777216x16777216 scalar scalar");
  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_EQ(lines(r.err), 1) << r.err;
  for (const char* part : {"16777216x16777216", "PQ2_0", "MiB are free"}) EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
}

TEST(Cli, ACapThatIsNoInstructionSetIsRefused) {
  const Outcome r = call("devices", "", "export FEWBIT_CPU_MAX=avx3; ");
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("FEWBIT_CPU_MAX: 'avx3'"), std::string::npos) << r.err;
}

TEST(Cli, AGpuSettingThatIsNoneIsRefusedByNameAndValue) {
  const struct {
    const char *set, *says;
  } cases[] = {
      {"FEWBIT_CUDA_HALF=off", "FEWBIT_CUDA_HALF: 'off' is not 0 or 1"}, {"FEWBIT_CUDA_DENSE=2", "FEWBIT_CUDA_DENSE: '2'"},
      {"FEWBIT_CUDA_EARLY_LAUNCH=-1", "FEWBIT_CUDA_EARLY_LAUNCH: '-1'"}, {"FEWBIT_CUDA_MEMORY_MAX=8G", "FEWBIT_CUDA_MEMORY_MAX: '8G'"},
      {"FEWBIT_CUDA_MEMORY_MAX=0", "FEWBIT_CUDA_MEMORY_MAX: '0'"},       {"FEWBIT_CUDA_MEMORY_MAX=nan", "FEWBIT_CUDA_MEMORY_MAX: 'nan'"}};
  for (const auto& c : cases) {
    const Outcome r = call("devices", "", std::string("export ") + c.set + "; ");
    EXPECT_EQ(r.code, 2) << c.set;
    EXPECT_NE(r.err.find(c.says), std::string::npos) << r.err;
    EXPECT_EQ(lines(r.err), 1) << r.err;
  }
  EXPECT_EQ(
      call("devices", "", "export FEWBIT_CUDA_HALF=0 FEWBIT_CUDA_DENSE=1 FEWBIT_CUDA_EARLY_LAUNCH= FEWBIT_CUDA_MEMORY_MAX=7.5; ").code, 0);
}

TEST(Cli, AWrongDeviceIsAWrongOptionInEveryCommand) {
  for (const char* args : {"verify --every 400", "ab --type PQ2_0 scalar scalar", "ceiling", "inspect", "run -p x"}) {
    const Outcome r = call(std::string(args) + " --device cuda:x");
    EXPECT_EQ(r.code, 2) << args;
    EXPECT_NE(r.err.find("--device: 'cuda:x' is not one of"), std::string::npos) << args << "\n" << r.err;
  }
}

TEST(Cli, ChatAnswersResetsAndSaves) {
  const std::string saved = testing::TempDir() + "fewbit_chat.json";
  Outcome r = call("chat -m " + dense + " -n 6 --temp 0", "hello\nand now?\n/save " + saved + "\n/nonsense\n/reset\n/exit\n");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(slurp(saved))["messages"].size(), 4u);
  EXPECT_NE(r.out.find("/nonsense"), std::string::npos);
}

TEST(Cli, DecodeEncodeRoundTrip) {
  const std::string v = std::string(FEWBIT_SOURCE_DIR) + "/tests/data/vectors/", blocks = testing::TempDir() + "fewbit_blocks",
                    floats = testing::TempDir() + "fewbit_floats";
  ASSERT_EQ(call("encode --type PQ2_0 " + v + "PQ2_0.input.f32.bin " + blocks).code, 0);
  EXPECT_EQ(slurp(blocks), slurp(v + "PQ2_0.quant.bin"));
  ASSERT_EQ(call("decode --type PQ2_0 " + v + "PQ2_0.packed.bin " + floats).code, 0);
  EXPECT_EQ(slurp(floats), slurp(v + "PQ2_0.f32.bin"));
  Outcome odd = call("decode --type PQ2_0 " + dense + " /dev/null");
  EXPECT_EQ(odd.code, 1);
  EXPECT_EQ(lines(odd.err), 1);
}

TEST(Cli, ReadmeCarriesTheTableOfFormats) {
  const std::string readme = slurp(std::string(FEWBIT_SOURCE_DIR) + "/README.md"), begin = "<!-- formats -->\n", end = "<!-- /formats -->";
  const size_t from = readme.find(begin) + begin.size(), to = readme.find(end);
  ASSERT_LT(from, to);
  EXPECT_EQ(readme.substr(from, to - from), call("devices --formats").out)
      << "paste the output of `fewbit devices --formats` into README.md";
}

TEST(Files, OutputsNeverReplaceInputs) {
  Folder folder;
  const std::string model = folder.file("m.gguf"), text = folder.file("text");
  fs::copy_file(dense, model);
  std::ofstream(text) << std::string(20'000, 'a');
  const std::string bytes = slurp(model);
  for (const std::string& args :
       {"quantize " + model + " " + folder.file("./m.gguf") + " Q8_0 --allow-requantize",
        "eval --tokens 1,2 -m " + model + " --logits " + model, "perplexity -f " + text + " -m " + model + " --kl-save " + model,
        "imatrix -f " + text + " -m " + model + " -o " + model}) {
    Outcome r = call(args);
    EXPECT_EQ(r.code, 1) << args;
    EXPECT_NE(last_line(r.err).find("would replace the input"), std::string::npos) << args << "\n" << r.err;
    EXPECT_EQ(slurp(model), bytes) << args;
  }
}

TEST(Files, DeepNestingAndPipesAreRefused) {
  Folder folder;
  std::ofstream(folder.file("deep.json")) << std::string(60'000, '[') << std::string(60'000, ']');
  Outcome r = call("template " + folder.file("deep.json"));
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("nested deeper than"), std::string::npos) << r.err;
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  r = call("run -p x -m " + folder.file("pipe"));
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("not a regular file"), std::string::npos) << r.err;
  r = call("quantize " + dense + " " + folder.file("o") + " Q8_0 --tensor-type '" + std::string(20'000, '(') + "=Q4_0'");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("at most 1000"), std::string::npos) << r.err;
  EXPECT_NE(call("help").out.find("perplexity"), std::string::npos);
}
