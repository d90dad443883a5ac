// A progress bar on stderr for work that takes a while (load, quantise, perplexity, download).
//
//   Progress progress("loading", n_bytes, Progress::Unit::bytes);
//   while (...) progress.update(done);     // from one thread; cheap, may be called for every item
//                                          // the destructor wipes the bar
//
// Drawn only when stderr is a terminal; otherwise every call returns at once and nothing is written.  The first line appears after 0.3 s,
// so that short work shows nothing, then at most ten a second.
#pragma once
#include <chrono>
#include <string>
#include <string_view>

#include "base/types.h"

namespace fewbit {

class Progress {
 public:
  enum class Unit { percent, count, bytes };  // percent: only the share is shown
  using Clock = std::chrono::steady_clock;

  // total 0: unknown, shown without bar and time left.
  explicit Progress(std::string what, u64 total = 0, Unit unit = Unit::percent, int fd = 2);
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(u64 done) {
    if (active_) draw(done, Clock::now());
  }
  void share(f64 fraction);  // 0..1, for hooks that know no total
  void finish();             // wipes the bar; further updates are ignored
  bool active() const { return active_; }

  // The text of the bar, at most `width` columns; elapsed in seconds.
  static std::string line(std::string_view what, u64 done, u64 total, Unit unit, f64 elapsed, int width);

 private:
  void draw(u64 done, Clock::time_point now);

  std::string what_;
  u64 total_;
  Unit unit_;
  int fd_;
  bool active_, drawn_ = false;
  Clock::time_point start_, next_;
};

}  // namespace fewbit
