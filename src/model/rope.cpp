#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "model/config.h"

namespace fewbit::model {

// YaRN's ramp: 1 for pairs that turn fast enough to be left alone, 0 for those that are fully stretched.
static f64 ramp(const RopeConfig& r, int pair) {
  auto turns_at = [&](f64 rotations) {
    return r.n_rot * std::log(r.original_context / (2 * std::numbers::pi * rotations)) / (2 * std::log(r.base));
  };
  f64 lo = std::max(0.0, std::floor(turns_at(r.beta_fast)));
  f64 hi = std::min(r.n_rot - 1.0, std::ceil(turns_at(r.beta_slow)));
  return 1 - std::clamp((pair - lo) / std::max(0.001, hi - lo), 0.0, 1.0);
}

// Text has one position, which serves the time, height and width axes alike; a pair that belongs to none of them stays (models.md 8.4).
static bool turns_with_text(const RopeConfig& r, int pair) {
  if (!r.multi_axis) return true;
  return pair < 3 * r.sections[size_t(pair % 3)];
}

std::vector<f64> rope_frequencies(const RopeConfig& r, std::span<const f32> freqs) {
  int pairs = r.n_rot / 2;
  FEWBIT_CHECK(freqs.empty() || int(freqs.size()) == pairs);
  std::vector<f64> w(static_cast<size_t>(pairs));
  for (int i = 0; i < pairs; i++) {
    f64 plain = std::pow(r.base, -2.0 * i / r.n_rot);
    f64 g = r.ext != 0 ? ramp(r, i) * r.ext : 0;
    f64 f = ((1 - g) / r.factor + g) * plain;
    if (!freqs.empty()) f /= freqs[size_t(i)];
    w[size_t(i)] = turns_with_text(r, i) ? f : 0;
  }
  return w;
}

f64 rope_magnitude(const RopeConfig& r) { return r.attn_factor * (r.ext != 0 ? 1 + 0.1 * std::log(r.factor) : 1); }

std::vector<f32> rope_table(const RopeConfig& r, std::span<const f32> freqs, int first, int positions) {
  std::vector<f64> w = rope_frequencies(r, freqs);
  f64 m = rope_magnitude(r);
  std::vector<f32> table(size_t(positions) * w.size() * 2);
  for (int p = 0; p < positions; p++)
    for (size_t i = 0; i < w.size(); i++) {
      f64 a = (first + p) * w[i];
      // A pair that stays is (1, 0): YaRN's factor belongs to the rotation.
      table[(size_t(p) * w.size() + i) * 2] = f32(w[i] == 0 ? 1 : m * std::cos(a));
      table[(size_t(p) * w.size() + i) * 2 + 1] = f32(w[i] == 0 ? 0 : m * std::sin(a));
    }
  return table;
}

}  // namespace fewbit::model
