#include "base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace fewbit {
namespace {

constexpr auto kFirst = std::chrono::milliseconds(300), kBetween = std::chrono::milliseconds(100);
constexpr u64 kShares = 10'000;  // the total behind share()

bool is_terminal(int fd) {
  const char* term = std::getenv("TERM");
  return isatty(fd) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

int columns(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string duration(f64 seconds) {
  u64 s = seconds < 0 ? 0 : seconds > 359'999 ? 359'999 : u64(std::lround(seconds));
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60) : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string amount(u64 n, Progress::Unit unit) {
  if (unit == Progress::Unit::count) return fmt::format("{}", n);
  static constexpr const char* names[] = {"B", "kB", "MB", "GB", "TB"};
  f64 x = f64(n);
  int i = 0;
  for (; x >= 999.5 && i < 4; i++) x /= 1000;
  return i == 0 || x >= 99.95 ? fmt::format("{:.0f} {}", x, names[i]) : fmt::format("{:.1f} {}", x, names[i]);
}

void put(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t n = ::write(fd, text.data(), text.size());
    if (n <= 0) return;  // a bar is not worth an error
    text.remove_prefix(size_t(n));
  }
}

}  // namespace

Progress::Progress(std::string what, u64 total, Unit unit, int fd)
    : what_(std::move(what)), total_(total), unit_(unit), fd_(fd), active_(is_terminal(fd)), start_(Clock::now()), next_(start_ + kFirst) {}

void Progress::share(f64 fraction) {
  if (!active_) return;
  unit_ = Unit::percent;
  total_ = kShares;
  draw(u64(std::clamp(fraction, 0.0, 1.0) * f64(kShares)), Clock::now());
}

void Progress::draw(u64 done, Clock::time_point now) {
  if (now < next_) return;
  next_ = now + kBetween;
  drawn_ = true;
  f64 elapsed = std::chrono::duration<f64>(now - start_).count();
  // One column stays free: a full line would wrap.
  put(fd_, "\r" + line(what_, done, total_, unit_, elapsed, columns(fd_) - 1) + "\x1b[K");
}

void Progress::finish() {
  if (active_ && drawn_) put(fd_, "\r\x1b[K");
  active_ = false;
}

std::string Progress::line(std::string_view what, u64 done, u64 total, Unit unit, f64 elapsed, int width) {
  std::string head(what), tail;
  if (total == 0) {
    tail = (unit == Unit::percent ? "" : amount(done, unit) + "  ") + duration(elapsed);
  } else {
    done = std::min(done, total);
    tail = fmt::format("{:3} %", u64(100.0 * f64(done) / f64(total)));
    if (unit != Unit::percent) tail += "  " + amount(done, unit) + " of " + amount(total, unit);
    if (unit == Unit::bytes && elapsed > 0) tail += "  " + amount(u64(f64(done) / elapsed), unit) + "/s";
    if (done > 0) tail += "  " + duration(elapsed * f64(total - done) / f64(done)) + " left";
  }
  int room = std::min(40, width - int(head.size() + tail.size()) - 6);
  std::string bar;
  if (total > 0 && room >= 8) {
    int filled = int(f64(room) * f64(done) / f64(total));
    bar = "[" + std::string(size_t(filled), '#') + std::string(size_t(room - filled), '.') + "]  ";
  }
  std::string text = head + "  " + bar + tail;
  if (text.size() > size_t(std::max(width, 0))) text.resize(size_t(std::max(width, 0)));
  return text;
}

}  // namespace fewbit
