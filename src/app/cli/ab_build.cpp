#include "app/cli/ab_build.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <thread>

#include "app/cli/common.h"
#include "base/clock.h"

namespace fewbit::cli {
namespace {

constexpr size_t longest_answer = size_t(1) << 30;  // bytes; the bits of a large product are some hundred MiB

constexpr u64 most_bytes = u64(1) << 50;  // of weights

// A pipe that no other program inherits.  (pipe2 would do it in one call, where there is one.)
bool open_pipe(int (&ends)[2]) {
  if (pipe(ends) != 0) return false;
  for (int fd : ends) fcntl(fd, F_SETFD, FD_CLOEXEC);
  return true;
}

// The whole text is one number.
template <class T>
bool parse(const std::string& s, T& value, int base = 10) {
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value, base);
  return !s.empty() && error == std::errc() && end == s.data() + s.size();
}

// More than nothing and less than days: ratios of others would be no numbers.  (from_chars of a float is not everywhere yet.)
bool parse_seconds(const std::string& s, f64& value) {
  char* end = nullptr;
  value = std::strtod(s.c_str(), &end);
  return !s.empty() && !std::isspace(u8(s[0])) && *end == 0 && value >= 1e-9 && value <= 1e6;
}

// Short enough, and clean enough, to stand in a line.
std::string quotable(std::string s) {
  if (s.size() > 60) s = s.substr(0, 57) + "...";
  for (char& c : s) {
    if (u8(c) < ' ' || u8(c) >= 127) c = '?';
  }
  return s;
}

}  // namespace

Status Build::launch(const std::vector<std::string>& args) {
  // Nothing is allocated between fork and exec: another thread may hold the allocator's lock.
  std::vector<char*> argv{const_cast<char*>(path_.c_str())};
  for (const std::string& s : args) argv.push_back(const_cast<char*>(s.c_str()));
  argv.push_back(nullptr);
  int to[2], from[2];
  if (!open_pipe(to)) return Error{Code::io, "ab: cannot make a pipe"};
  in_ = to[1];
  if (!open_pipe(from)) {
    close(to[0]);
    return Error{Code::io, "ab: cannot make a pipe"};
  }
  out_ = from[0];
  // A file: what it says is told in one line of ours, and a pipe that nobody reads would stop it.
  messages_ = std::tmpfile();
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);  // a group of its own, so that a script's children can be ended with it
    dup2(to[0], 0);
    dup2(from[1], 1);
    if (messages_) dup2(fileno(messages_), 2);
    execv(path_.c_str(), argv.data());
    _exit(127);
  }
  if (pid_ > 0) setpgid(pid_, pid_);  // whichever of the two is first
  close(to[0]);
  close(from[1]);
  if (pid_ < 0) return Error{Code::io, "ab: cannot start " + path_};
  return {};
}

Result<std::unique_ptr<kernel::Contestant>> Build::start(const std::string& path, const std::vector<std::string>& args, f64 limit) {
  auto b = std::unique_ptr<Build>(new Build(path, limit));
  FEWBIT_OK(b->launch(args));
  std::string ready;
  if (!b->ask("hello", ready)) {
    if (b->silent_ || !b->wrong_.empty()) return Error{Code::io, b->trouble()};
    std::string why = b->message();
    if (!why.empty()) why = ": " + why;
    return Error{Code::unsupported,
                 fmt::format("{}: does not answer as a build of fewbit with `ab --worker` and this kernel{}", path, why)};
  }
  if (ready.rfind("ready ", 0) != 0 || !parse(ready.substr(6), b->bytes_) || b->bytes_ == 0 || b->bytes_ > most_bytes) {
    b->wrong("hello", ready, "'ready' and bytes were");
    return Error{Code::io, b->trouble()};
  }
  return std::unique_ptr<kernel::Contestant>(std::move(b));
}

Build::~Build() {
  if (in_ >= 0) close(in_);
  if (out_ >= 0) close(out_);
  if (messages_) std::fclose(messages_);
  if (pid_ <= 0) return;
  // It ends when nobody asks any more.  Until it is waited for its number is nobody else's, nor is the group's.
  siginfo_t ended{};
  for (int i = 0; i < 100 && !silent_ && !Cancel::flag() && ended.si_pid == 0; i++) {
    if (waitid(P_PID, id_t(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0) break;
    if (ended.si_pid == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

f64 Build::run(int times) {
  std::string s;
  const std::string question = fmt::format("run {}", times);
  f64 seconds = 0;
  if (ask(question, s) && !parse_seconds(s, seconds)) wrong(question, s, "seconds were");
  return seconds;
}

std::vector<u32> Build::bits() {
  std::string s;
  std::vector<u32> v;
  if (!ask("bits", s)) return v;
  std::istringstream in(s);
  u32 word = 0;
  for (std::string w; in >> w; v.push_back(word)) {
    if (!parse(w, word, 16)) return wrong("bits", s, "the bits of a result, words in hexadecimal, were"), v;
  }
  if (v.empty()) wrong("bits", s, "the bits of a result, words in hexadecimal, were");
  return v;
}

void Build::wrong(const std::string& question, const std::string& answer, const char* wanted) {
  asked_ = question;
  wrong_ = fmt::format("ab: {} answered '{}' where {} asked", path_, quotable(answer), wanted);
}

std::string Build::trouble() const {
  if (!wrong_.empty()) return wrong_;
  if (silent_) return fmt::format("ab: {} did not answer '{}' within {:g} s (--limit)", path_, asked_, limit_);
  const std::string said = message();
  return fmt::format("ab: {} ended in the middle of the comparison{}", path_, said.empty() ? "" : ": " + said);
}

std::string Build::message() const {
  if (!messages_) return "";
  char text[4096];
  const off_t size = lseek(fileno(messages_), 0, SEEK_END);
  const ssize_t n = pread(fileno(messages_), text, sizeof text, std::max<off_t>(0, size - off_t(sizeof text)));
  std::string s(text, size_t(std::max<ssize_t>(0, n)));
  while (!s.empty() && (s.back() == '\n' || s.back() == '\r')) s.pop_back();
  s.erase(0, s.rfind('\n') + 1);  // the last line
  if (s.rfind("fewbit: ", 0) == 0) s.erase(0, 8);
  return s;
}

bool Build::ask(const std::string& question, std::string& answer) {
  answer.clear();
  if (lost()) return false;
  auto* before = std::signal(SIGPIPE, SIG_IGN);  // the process may have ended
  const std::string line = question + "\n";
  const bool sent = write(in_, line.data(), line.size()) == ssize_t(line.size());
  std::signal(SIGPIPE, before);
  if (sent && receive(answer)) return true;
  asked_ = question;
  if (rest_.size() > longest_answer) wrong(question, rest_, "one line was");
  answer.clear();
  return false;
}

bool Build::receive(std::string& answer) {
  const f64 end = now_s() + limit_;
  for (size_t searched = 0; rest_.size() <= longest_answer;) {
    if (const size_t line = rest_.find('\n', searched); line != std::string::npos) {
      answer = rest_.substr(0, line);
      rest_.erase(0, line + 1);
      return true;
    }
    searched = rest_.size();
    const f64 left = end - now_s();
    pollfd p{out_, POLLIN, 0};
    // In short pieces: Ctrl-C may come just before poll() begins.
    const int got = left <= 0 ? 0 : poll(&p, 1, int(std::min(left, 0.1) * 1e3) + 1);
    if (Cancel::flag()) return false;
    if ((got == 0 && left > 0) || (got < 0 && errno == EINTR)) continue;
    if (got <= 0) {
      silent_ = got == 0;
      return false;
    }
    char piece[1 << 16];
    const ssize_t n = read(out_, piece, sizeof piece);
    if (n <= 0) return false;
    rest_.append(piece, size_t(n));
  }
  return false;
}

Status serve(kernel::Contestant& c) {
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "hello") {
      fmt::print("ready {}\n", c.bytes());
    } else if (line.rfind("run ", 0) == 0) {
      int times = 0;
      if (!parse(line.substr(4), times) || times < 1 || times > kernel::most_repetitions)
        return Error{Code::invalid_argument, fmt::format("ab --worker: '{}': 1 to {} runs at a time", line, kernel::most_repetitions)};
      fmt::print("{:.9f}\n", c.run(times));
    } else if (line == "bits") {
      std::string s;
      for (u32 w : c.bits()) s += fmt::format("{:x} ", w);
      fmt::print("{}\n", s);
    } else {
      return Error{Code::invalid_argument, "ab --worker: unknown request '" + line + "'"};
    }
    FEWBIT_OK(check_cancel("in the middle of requests"));
    std::fflush(stdout);
  }
  return check_cancel("between requests");
}

bool is_build(const std::string& name) {
  return name.find('/') != std::string::npos && std::filesystem::is_regular_file(name) && access(name.c_str(), X_OK) == 0;
}

}  // namespace fewbit::cli
