#include "kernel/ab.h"

#include <algorithm>
#include <random>

namespace fewbit::kernel {
namespace {

f64 median(std::vector<f64> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v.size() % 2 ? v[v.size() / 2] : (v[v.size() / 2 - 1] + v[v.size() / 2]) / 2;
}

// Median of the rounds' ratios; the interval is the middle 95 % of medians of rounds drawn with replacement, some neighbours at a time:
// what disturbs a machine lasts for more than a round, and rounds drawn one by one would call that evidence.
Ratio ratio_of(const std::vector<f64>& ratios, u64 seed) {
  Ratio r;
  r.median = median(ratios);
  std::mt19937_64 rng(seed);
  const size_t n = ratios.size(), run = std::clamp<size_t>(n / 12, 1, 8);
  std::vector<f64> medians, draw(n);
  for (int i = 0; i < 2000; i++) {
    size_t from = 0;
    for (size_t j = 0; j < n; j++) {
      from = j % run == 0 ? size_t(rng() % n) : (from + 1) % n;
      draw[j] = ratios[from];
    }
    medians.push_back(median(draw));
  }
  std::sort(medians.begin(), medians.end());
  r.low = medians[50];
  r.high = medians[1949];
  return r;
}

}  // namespace

Type named_format(const std::string& kernel, Type otherwise) {
  const std::string last = kernel.substr(kernel.rfind('.') + 1);
  for (const FormatInfo& f : all_formats())
    if (last == f.name) return f.type;
  return otherwise;
}

AbResult judge_rounds(const std::vector<Round>& rounds, u64 seed, f64 floor) {
  AbResult result;
  std::vector<f64> ab, aa, a, b;
  for (const Round& r : rounds) {
    ab.push_back(r.b / r.a);
    aa.push_back(r.control_b / r.control_a);
    a.push_back(r.a / 2);
    b.push_back(r.b / 2);
  }
  if (rounds.empty()) return result;
  result.ratio = ratio_of(ab, seed);
  result.control = ratio_of(aa, seed + 1);
  result.seconds_a = median(a);
  result.seconds_b = median(b);
  // The control shows what this machine calls different when nothing is, in whichever direction.
  const f64 spread = std::max({floor, result.control.high - 1, 1 - result.control.low});
  if (result.ratio.low > 1 + spread) result.verdict = AbResult::a_faster;
  if (result.ratio.high < 1 - spread) result.verdict = AbResult::b_faster;
  return result;
}

AbResult compare(Contestant& a, Contestant& b, const AbOptions& options) {
  auto ended = [&] { return a.lost() || b.lost() || (options.cancel && *options.cancel); };
  AbResult early;
  a.run(1);
  b.run(1);
  const std::vector<u32> bits_a = a.bits(), bits_b = b.bits();
  // As many repetitions as fill the time, the same for both.
  const f64 once = std::max({a.run(1), b.run(1), 1e-9});
  const int times = int(std::clamp(options.seconds / once, 1.0, f64(most_repetitions)));
  const struct {
    Contestant& of;
    f64 Round::*time;
  } turns[] = {{a, &Round::a},         {b, &Round::b},         {b, &Round::b},         {a, &Round::a},
               {a, &Round::control_a}, {a, &Round::control_b}, {a, &Round::control_b}, {a, &Round::control_a}};
  std::vector<Round> rounds;
  for (; early.rounds < options.pairs; early.rounds++) {
    Round r;
    for (const auto& turn : turns) {
      if (ended()) return early;
      r.*turn.time += turn.of.run(times) / times;
    }
    if (ended()) return early;  // its last time may be no time
    rounds.push_back(r);
  }
  AbResult result = judge_rounds(rounds, options.seed, options.floor);
  result.rounds = int(rounds.size());
  result.same_bits = bits_a == bits_b;
  return result;
}

std::string AbResult::text() const {
  auto percent = [](f64 x) {
    char s[32];
    std::snprintf(s, sizeof s, "%+.1f %%", (x - 1) * 100);
    return std::string(s);
  };
  auto interval = [&](const Ratio& r) { return percent(r.median) + " [" + percent(r.low) + ", " + percent(r.high) + "]"; };
  const char* words = verdict == no_difference ? "no difference" : verdict == a_faster ? "A is faster" : "B is faster";
  return std::string(words) + ": B takes " + interval(ratio) + " against A (A against itself " + interval(control) + "), bits " +
         (same_bits ? "equal" : "DIFFER");
}

}  // namespace fewbit::kernel
