// Calls the program as a user does.
#pragma once
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

namespace fewbit::cli_test {

namespace fs = std::filesystem;

struct Outcome {
  int code = -1;  // 128 + N: ended by signal N
  std::string out, err;
  long peak_kib = 0;  // largest resident size
};

inline std::string slurp(const fs::path& p) {
  std::ifstream in(p, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A folder of its own, gone at the end.
struct Folder {
  fs::path path;
  Folder() {
    static int n = 0;
    path = fs::path(testing::TempDir()) / ("fewbit_cli_" + std::to_string(getpid()) + "_" + std::to_string(n++));
    fs::create_directories(path);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  std::string file(const std::string& name) const { return (path / name).string(); }
  int files() const { return int(std::distance(fs::directory_iterator(path), fs::directory_iterator())); }
};

// Through the shell: the arguments are our own.  `during` runs beside the program, with its process id and the file of its messages.
inline Outcome call(const std::string& args, const std::string& input = "", const std::string& before = "",
                    const std::function<void(pid_t, const fs::path& err)>& during = {}) {
  Folder dir;
  std::ofstream(dir.path / "in", std::ios::binary) << input;
  const std::string cmd =
      before + "exec " + FEWBIT_BINARY + " " + args + " < " + dir.file("in") + " > " + dir.file("out") + " 2> " + dir.file("err");
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", cmd.c_str(), nullptr);
    _exit(127);
  }
  if (during) during(child, dir.path / "err");
  Outcome r;
  int status = 0;
  rusage used{};
  EXPECT_EQ(wait4(child, &status, 0, &used), child);
  r.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  r.out = slurp(dir.path / "out");
  r.err = slurp(dir.path / "err");
  r.peak_kib = used.ru_maxrss;
  return r;
}

// Ctrl-C: as soon as the messages hold `sign` ("" = at once) and a little later.
inline Outcome interrupt(const std::string& args, const std::string& sign) {
  using namespace std::chrono_literals;
  return call(args, "", "", [&](pid_t child, const fs::path& err) {
    auto waits = [&] { return sign.empty() ? !fs::exists(err) : slurp(err).find(sign) == std::string::npos; };
    for (int i = 0; i < 1200 && waits(); i++) std::this_thread::sleep_for(50ms);
    std::this_thread::sleep_for(1s);
    kill(child, SIGINT);
  });
}

inline int lines(const std::string& s) { return int(std::count(s.begin(), s.end(), '\n')); }
inline std::string last_line(const std::string& s) {
  const size_t end = s.empty() ? 0 : s.size() - 1;
  return s.substr(s.rfind('\n', end ? end - 1 : 0) + 1);
}

inline const std::string dense = std::string(FEWBIT_SOURCE_DIR) + "/models/mini-dense.pq2_0.gguf";
inline const std::string hybrid = std::string(FEWBIT_SOURCE_DIR) + "/models/mini-hybrid.pq2_0.gguf";

}  // namespace fewbit::cli_test
