#include "base/thread_pool.h"

#include <sched.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fewbit {

static void pause_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

static std::vector<int> allowed_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int c = 0; c < CPU_SETSIZE; c++) {
      if (CPU_ISSET(c, &set)) cores.push_back(c);
    }
  }
  return cores;
}

int usable_cores() {
  int n = int(allowed_cores().size());
  return n > 0 ? n : 1;
}

// One generation counter starts a call, one counter of finished workers ends it.  Both are spun on for about 20 us before the
// waiting side sleeps on a condition variable: a decoded token makes hundreds of calls a few microseconds apart.
struct ThreadPool::Team {
  static constexpr int spins = 4000;
  std::atomic<u64> generation{0};
  std::atomic<int> running{0};
  std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};
  void (*call)(void*, int, int) = nullptr;
  void* fn = nullptr;
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::thread> threads;

  void worker(int index, int n) {
    u64 seen = 0;
    for (;;) {
      for (int i = 0; i < spins && generation.load(std::memory_order_acquire) == seen; i++) pause_cpu();
      if (generation.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex);
        sleepers.fetch_add(1, std::memory_order_seq_cst);
        wake.wait(lock, [&] { return generation.load(std::memory_order_seq_cst) != seen; });
        sleepers.fetch_sub(1, std::memory_order_relaxed);
      }
      seen++;
      if (stop.load(std::memory_order_relaxed)) return;
      call(fn, index, n);
      running.fetch_sub(1, std::memory_order_release);
    }
  }

  void start_generation() {
    generation.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) > 0) {
      std::lock_guard lock(mutex);
      wake.notify_all();
    }
  }
};

ThreadPool::ThreadPool(int n_threads, bool pin)
    : team_(new Team), n_(n_threads > 0 ? n_threads : usable_cores()), parts_(new Part[size_t(n_)]) {
  std::vector<int> cores = allowed_cores();
  for (int i = 1; i < n_; i++) {
    team_->threads.emplace_back([this, i] { team_->worker(i, n_); });
    if (pin && int(cores.size()) >= n_) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(cores[size_t(i)], &set);
      pthread_setaffinity_np(team_->threads.back().native_handle(), sizeof set, &set);
    }
  }
}

ThreadPool::~ThreadPool() {
  team_->stop.store(true, std::memory_order_relaxed);
  team_->start_generation();
  for (auto& t : team_->threads) t.join();
}

void ThreadPool::run_raw(void (*call)(void*, int, int), void* fn) {
  if (n_ == 1) {
    call(fn, 0, 1);
    return;
  }
  Team& t = *team_;
  t.call = call;
  t.fn = fn;
  t.running.store(n_ - 1, std::memory_order_relaxed);
  t.start_generation();
  call(fn, 0, n_);
  for (int i = 0; t.running.load(std::memory_order_acquire) != 0; i++) {
    if (i < 20000) {
      pause_cpu();
    } else {
      sched_yield();
    }
  }
}

}  // namespace fewbit
