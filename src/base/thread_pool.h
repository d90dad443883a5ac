// A fixed team of threads for kernels: run(fn) calls fn(thread, n_threads) once on every member, the caller being thread 0,
// and returns when all are done.  Workers are pinned, spin for a short while after a call and then sleep.
//
// A kernel must give the same bits at any n_threads: split by rows or columns, never by the summed dimension.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <type_traits>

#include "base/types.h"

namespace fewbit {

class ThreadPool {
 public:
  // n_threads <= 0: one per core this process may use.  pin: bind worker i to the i-th allowed core.
  explicit ThreadPool(int n_threads = 0, bool pin = true);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return n_; }

  // fn(int thread, int n_threads) on every thread.  Not reentrant; one caller at a time.
  template <class F>
  void run(F&& fn) {
    using D = std::remove_reference_t<F>;
    run_raw([](void* f, int t, int n) { (*static_cast<D*>(f))(t, n); }, const_cast<std::remove_const_t<D>*>(&fn));
  }

  // fn(i64 begin, i64 end, int thread) over [0, n) in pieces of `grain` items.  Each thread walks through its own n-th part, so that what
  // it streams lies in one run of memory, and then helps those that are not done.
  template <class F>
  void for_range(i64 n, i64 grain, F&& fn) {
    if (n <= grain || n_ == 1) {
      if (n > 0) fn(i64(0), n, 0);
      return;
    }
    for (int t = 0; t < n_; t++) {
      parts_[size_t(t)].next.store(n * t / n_, std::memory_order_relaxed);
      parts_[size_t(t)].end = n * (t + 1) / n_;
    }
    run([&](int t, int) {
      for (int i = 0; i < n_; i++) {
        Part& part = parts_[size_t((t + i) % n_)];
        for (;;) {
          const i64 b = part.next.fetch_add(grain, std::memory_order_relaxed);
          if (b >= part.end) break;
          fn(b, b + grain < part.end ? b + grain : part.end, t);
        }
      }
    });
  }

 private:
  void run_raw(void (*call)(void*, int, int), void* fn);
  struct Team;
  struct alignas(64) Part {  // of a for_range, on a cache line of its own
    std::atomic<i64> next{0};
    i64 end = 0;
  };
  std::unique_ptr<Team> team_;
  int n_;
  std::unique_ptr<Part[]> parts_;
};

// Cores this process may run on (affinity mask), at least 1.
int usable_cores();

}  // namespace fewbit
