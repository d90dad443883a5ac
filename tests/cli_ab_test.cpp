// `ab` of builds by path, good and bad ones, and how it ends.
#include "base/json.h"
#include "cli_call.h"

using fewbit::Json;
using namespace fewbit::cli_test;

namespace {

// A program that answers as a build does, as far as the script goes.
std::string script(const Folder& dir, const std::string& name, const std::string& text) {
  const std::string path = dir.file(name);
  std::ofstream(path) << "#!/bin/sh\n" << text;
  fs::permissions(path, fs::perms::owner_all);
  return path;
}
std::string two(const std::string& build) { return build + " " + build; }

// Processes with this text among their arguments, once those that were ended have had the time to.
int processes_with(const std::string& text) {
  int n = 0;
  for (int attempt = 0; attempt < 40; attempt++) {
    n = 0;
    std::error_code none;  // where there is no /proc
    for (const auto& entry : fs::directory_iterator("/proc", none)) {
      const std::string id = entry.path().filename();
      if (std::isdigit(static_cast<unsigned char>(id[0])) && slurp(entry.path() / "cmdline").find(text) != std::string::npos) n++;
    }
    if (n == 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return n;
}

constexpr const char* small = "ab --warm --type PQ2_0 --shape 64x256 --pairs 50 ";

}  // namespace

TEST(Ab, ComparesKernelsAndBuilds) {
  const std::string options = " --warm --shape 64x256 --pairs 5 --seconds 1e-5 -o json ";
  for (const std::string& pair : {std::string("scalar scalar"), two(FEWBIT_BINARY)}) {
    const Outcome r = call("ab --type PQ2_0,Q4_0 --op matmul,moe_down --cols 1,3 --experts 2" + options + pair);
    ASSERT_EQ(r.code, 0) << r.err;
    const Json rows = Json::parse(r.out);
    ASSERT_EQ(rows.size(), 8u);
    for (const Json& row : rows) {
      EXPECT_TRUE(row["same_bits"].get<bool>()) << row.dump();
      EXPECT_GT(row["gb_s_b"].get<double>(), 0) << row.dump();
    }
  }
  const Outcome unknown = call("ab --type PQ2_0 --warm --shape 64x256 --pairs 5 nonsense scalar");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_EQ(unknown.out, "");
}

// A program of that name in the current folder is nobody's path.
TEST(Ab, ANameWithoutASlashIsAKernel) {
  Folder dir;
  const std::string program = dir.file("scalar");
  std::ofstream(program) << "#!/bin/sh\ntouch ran\n";
  fs::permissions(program, fs::perms::owner_all);
  const Outcome r = call("ab --type PQ2_0 --warm --shape 64x256 --pairs 3 --seconds 1e-5 scalar scalar", "", "cd '" + dir.file("") + "'; ");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_FALSE(fs::exists(dir.file("ran")));
}

// Experts say nothing about matmul: one row of it, however many numbers of experts the other operation is asked for.
TEST(Ab, ListsOfExpertsMakeNoSecondRowOfMatmul) {
  const Outcome r =
      call("ab --op matmul,moe_down --experts 1,2 --warm --shape 64x256 --pairs 3 --seconds 1e-5 -o json --type PQ2_0 scalar scalar");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out).size(), 3u) << r.out;
}

TEST(Ab, AKernelAgainstABuildIsRefused) {
  for (const std::string& pair : {std::string("scalar ") + FEWBIT_BINARY, FEWBIT_BINARY + std::string(" scalar")}) {
    const Outcome r = call(small + pair);
    EXPECT_EQ(r.code, 2) << r.err;
    EXPECT_EQ(lines(r.err), 1) << r.err;
    EXPECT_NE(r.err.find("give both as paths"), std::string::npos) << r.err;
    EXPECT_EQ(r.out, "");
  }
}

TEST(Ab, EveryTypeIsLookedAtBeforeTheFirstRow) {
  for (const std::string& pair : {std::string("scalar scalar"), two(FEWBIT_BINARY)}) {
    const Outcome r = call("ab --warm --shape 64x256 --pairs 3 --seconds 1e-5 --type PQ2_0,I8 " + pair);
    EXPECT_EQ(r.code, 1) << r.err;
    EXPECT_EQ(lines(r.err), 1) << r.err;
    EXPECT_NE(r.err.find("I8"), std::string::npos) << r.err;
    EXPECT_EQ(r.out, "") << pair;
  }
  const Outcome all = call("ab --list --type PQ2_0,Q4_0");
  EXPECT_NE(all.out.find("PQ2_0/scalar"), std::string::npos) << all.out;
  EXPECT_NE(all.out.find("Q4_0/scalar"), std::string::npos) << all.out;
}

// What a build says on its standard error is part of the one line.
TEST(Ab, ABuildWithoutTheKernelSaysSoInOneLine) {
  const Outcome r = call("ab --type I8 --shape 64x256 " + two(FEWBIT_BINARY));
  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_EQ(lines(r.err), 1) << r.err;
  EXPECT_NE(r.err.find("no CPU kernel for type I8"), std::string::npos) << r.err;
}

TEST(Ab, AnswersThatAreNoneAreQuoted) {
  Folder dir;
  for (const char* seconds : {"rubbish", "nan", "-1", "0", "inf", "1 2", " 1", "", "1e999", "1e308", "1e-320"}) {
    const std::string build = script(dir, "bad", std::string("read l; echo ready 64\nwhile read l; do echo '") + seconds + "'; done\n");
    const Outcome r = call(small + two(build));
    EXPECT_EQ(r.code, 1) << seconds << "\n" << r.err;
    EXPECT_EQ(r.err, "fewbit: ab: " + build + " answered '" + seconds + "' where seconds were asked\n");
    EXPECT_EQ(r.out, "") << seconds;
  }
  for (const char* ready : {"ready abc", "ready", "ready -1", "ready 0", "ready 1 2", "ready 99999999999999999999", "hello"}) {
    const std::string build = script(dir, "bad", std::string("while read l; do echo '") + ready + "'; done\n");
    const Outcome r = call(small + two(build));
    EXPECT_EQ(r.code, 1) << ready << "\n" << r.err;
    EXPECT_EQ(r.err, "fewbit: ab: " + build + " answered '" + ready + "' where 'ready' and bytes were asked\n");
  }
  for (const char* bits : {"xyz", "", "123456789", "0 -1"}) {
    const std::string build =
        script(dir, "bad",
               std::string("read l; echo ready 64\nwhile read l; do case $l in bits) echo '") + bits + "';; *) echo 0.01;; esac; done\n");
    const Outcome r = call(small + two(build));
    EXPECT_EQ(r.code, 1) << bits << "\n" << r.err;
    EXPECT_EQ(lines(r.err), 1) << r.err;
    EXPECT_NE(r.err.find("answered '" + std::string(bits) + "' where the bits"), std::string::npos) << r.err;
  }
}

TEST(Ab, AWorkerBoundsWhatItIsAsked) {
  for (const char* n : {"99999999999999", "1000001", "0", "-1", "x", "1 1", ""}) {
    const Outcome r = call("ab --worker --warm --shape 64x256", std::string("hello\nrun ") + n + "\n");
    EXPECT_EQ(r.code, 1) << n << "\n" << r.err;
    EXPECT_EQ(lines(r.err), 1) << r.err;
    EXPECT_NE(r.err.find("1 to 1000000"), std::string::npos) << r.err;
  }
  EXPECT_EQ(call("ab --worker --warm --shape 64x256", "hello\nrun 3\nbits\n").code, 0);
}

// A build that answers four times, then is killed.
TEST(Ab, SaysWhichBuildEnded) {
  Folder dir;
  const std::string dies =
      script(dir, "dies", "read l; echo ready 64\nread l; echo 0.01\nread l; echo 0\nread l; echo 0.01\nread l; kill -9 $$\n");
  const Outcome r = call(small + two(dies));
  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_EQ(lines(r.err), 1) << r.err;
  EXPECT_NE(r.err.find(dies + " ended in the middle"), std::string::npos) << r.err;
}

// Builds that stay silent, from the start or in the middle; scripts whose own children would go on.
TEST(Ab, GivesUpOnASilentBuildAndEndsItsChildren) {
  Folder dir;
  const std::string naps = dir.file("naps");
  fs::copy_file("/bin/sleep", naps);
  for (const auto& [text, question] : {std::pair("", "hello"), std::pair("read l; echo ready 64\nread l; echo 0.01\n", "bits")}) {
    const std::string silent = script(dir, "silent", text + naps + " 100\necho awake\n");
    const auto start = std::chrono::steady_clock::now();
    const Outcome r = call("ab --warm --type PQ2_0 --shape 64x256 --pairs 50 --limit 0.5 " + two(silent));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
    EXPECT_EQ(r.code, 1) << r.err;
    EXPECT_EQ(lines(r.err), 1) << r.err;
    EXPECT_NE(r.err.find(silent + " did not answer '" + question + "' within 0.5 s"), std::string::npos) << r.err;
    EXPECT_EQ(processes_with(naps), 0);
  }
}

// One line that says how far it came, and nobody is left.
TEST(Ab, CtrlCEndsKernelsAndBuilds) {
  Folder dir;
  const std::string fewbit = dir.file("fewbit"), naps = dir.file("naps");
  fs::copy_file(FEWBIT_BINARY, fewbit);
  fs::copy_file("/bin/sleep", naps);
  const std::string hangs = script(dir, "hangs", naps + " 100\necho awake\n");
  const std::string options = "ab --warm --type PQ2_0 --shape 64x256 --pairs 9999 --seconds 0.01 -t 1 ";
  for (const auto& [pair, says] : {std::pair{std::string("scalar scalar"), "of 9999 rounds of comparison 1 of 1"},
                                   {std::string("--seconds 10 scalar scalar"), "after 0 of 9999 rounds"},
                                   {two(fewbit), "of 9999 rounds of comparison 1 of 1"},
                                   {two(hangs), "after 0 of 9999 rounds"}}) {
    const bool slow = pair.rfind("--seconds", 0) == 0;
    const auto start = std::chrono::steady_clock::now();
    const Outcome r = interrupt(slow ? "ab --warm --type PQ2_0 --shape 64x256 --pairs 9999 -t 1 " + pair : options + pair, "");
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8)) << pair;
    EXPECT_EQ(r.code, 130) << pair << "\n" << r.err;
    EXPECT_EQ(lines(r.err), 1) << pair << "\n" << r.err;
    EXPECT_NE(r.err.find(says), std::string::npos) << pair << "\n" << r.err;
    EXPECT_EQ(processes_with(dir.path.string()), 0) << pair;
  }
}
