#include "runtime/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/log.h"

namespace fewbit::runtime {
namespace {

constexpr f32 infinity = std::numeric_limits<f32>::infinity();
constexpr f32 largest = std::numeric_limits<f32>::max();
constexpr size_t block = 64;  // logits whose maximum is found together

// Four lanes, computed alike on every machine: what is SIMD here costs nothing elsewhere.
using F4 [[gnu::vector_size(16)]] = f32;
using I4 [[gnu::vector_size(16)]] = i32;
F4 load(const f32* p) {
  F4 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// Largest of n numbers, NaN left out; minus infinity for none.
f32 max_of(const f32* p, size_t n) {
  F4 m = F4{} - infinity;
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    F4 x = load(p + i);
    m = x > m ? x : m;
  }
  f32 best = -infinity;
  for (size_t l = 0; l < 4; l++) best = m[l] > best ? m[l] : best;
  for (; i < n; i++) best = p[i] > best ? p[i] : best;
  return best;
}

// exp(x) for x <= 0, relative error below 2e-7; 0 below -87.  x = n ln 2 + r, |r| <= ln 2 / 2: Taylor series to the sixth order.
F4 exp4(F4 x) {
  const F4 least = F4{} - 87.0f;
  I4 counts = x >= least;  // not for NaN
  x = counts ? x : least;
  const f32 magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  F4 n = (x * 1.44269504f + magic) - magic;
  F4 r = x - n * 0.693359375f + n * 2.12194440e-4f;
  F4 r2 = r * r;
  F4 p = (1.0f + r) + r2 * ((0.5f + r * (1.0f / 6)) + r2 * ((1.0f / 24 + r * (1.0f / 120)) + r2 * (1.0f / 720)));
  I4 scaled = std::bit_cast<I4>(p) + (__builtin_convertvector(n, I4) << 23);
  return std::bit_cast<F4>(counts & scaled);
}
f32 exp1(f32 x) { return exp4(F4{} + x)[0]; }

// Weights exp((x - max) / temperature), block by block; `sums`: of each block.  Returns the sum of all.  Infinity counts as the largest
// number, NaN as nothing.
f64 weigh(std::span<const f32> x, f32 max, f32 temperature, std::vector<f32>& w, std::vector<f32>& sums) {
  size_t n = x.size();
  w.resize(n);
  sums.clear();
  f64 total = 0;
  f32 inverse = std::min(1 / temperature, largest);
  auto weight = [=](F4 v) { return exp4(((v > largest ? F4{} + largest : v) - max) * inverse); };
  for (size_t at = 0; at < n; at += block) {
    F4 sum{};
    size_t i = at, end = std::min(at + block, n);
    for (; i + 4 <= end; i += 4) {
      F4 e = weight(load(&x[i]));
      std::memcpy(&w[i], &e, sizeof e);
      sum += e;
    }
    f32 all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    for (; i < end; i++) all += w[i] = weight(F4{} + x[i])[0];
    sums.push_back(all);
    total += f64(all);
  }
  return total;
}

u64 system_seed() {
  std::random_device device;
  return u64(device()) << 32 | device();
}

}  // namespace

Random::Random(u64 seed) {
  for (u64& s : s_) {  // splitmix64
    u64 z = seed += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    s = z ^ z >> 31;
  }
}

u64 Random::next() {
  u64 result = std::rotl(s_[1] * 5, 7) * 9, t = s_[1] << 17;
  s_[2] ^= s_[0];
  s_[3] ^= s_[1];
  s_[1] ^= s_[2];
  s_[0] ^= s_[3];
  s_[2] ^= t;
  s_[3] = std::rotl(s_[3], 45);
  return result;
}

Status SampleParams::check() const {
  auto bad = [](const char* field, f64 value, const char* wanted) {
    return Error{Code::invalid_argument, fmt::format("{} is {}, must be {}", field, value, wanted)};
  };
  // Written so that NaN fails.
  if (!(temperature >= 0 && temperature <= largest)) return bad("temperature", temperature, "a number >= 0");
  if (top_k < 0) return bad("top_k", top_k, ">= 0");
  if (!(top_p >= 0 && top_p <= 1)) return bad("top_p", top_p, "in [0, 1]");
  if (!(min_p >= 0 && min_p <= 1)) return bad("min_p", min_p, "in [0, 1]");
  if (!(repeat_penalty > 0 && repeat_penalty <= largest)) return bad("repeat_penalty", repeat_penalty, "a number > 0");
  if (!(std::abs(presence_penalty) <= largest)) return bad("presence_penalty", presence_penalty, "a number");
  if (!(std::abs(frequency_penalty) <= largest)) return bad("frequency_penalty", frequency_penalty, "a number");
  if (penalty_last_n < -1) return bad("penalty_last_n", penalty_last_n, ">= -1");
  for (auto [token, bias] : logit_bias) {
    if (token < 0) return bad("a token of logit_bias", token, ">= 0");
    if (!(bias <= largest)) return bad("a bias of logit_bias", bias, "a number or minus infinity");
  }
  return {};
}

SampleParams sampling_defaults(const gguf::File& file, SampleParams base) {
  auto read = [&](const char* name, auto SampleParams::*field) {
    const gguf::Value* v = file.find(std::string("general.sampling.") + name);
    if (!v) return;
    std::optional<f64> number = v->as_float();
    if (!number && v->as_int()) number = f64(*v->as_int());
    using T = std::remove_reference_t<decltype(base.*field)>;
    SampleParams with = base;
    bool fits = number && std::abs(*number) <= f64(std::numeric_limits<i32>::max());
    if (fits) with.*field = T(*number);
    if (fits && with.check().ok())
      base = with;
    else
      log::warn("{}: general.sampling.{} is of no use and ignored", file.path(), name);
  };
  read("temp", &SampleParams::temperature);
  read("top_k", &SampleParams::top_k);
  read("top_p", &SampleParams::top_p);
  read("min_p", &SampleParams::min_p);
  read("penalty_last_n", &SampleParams::penalty_last_n);
  read("penalty_repeat", &SampleParams::repeat_penalty);
  return base;
}

Sampler::Sampler(SampleParams params)
    : params_(std::move(params)), seed_(params_.seed == -1 ? system_seed() : u64(params_.seed)), random_(seed_) {
  if (params_.penalty_last_n > 0) window_.reserve(size_t(std::min(params_.penalty_last_n, 1 << 16)));
}

bool Sampler::penalties_on() const {
  return params_.penalty_last_n != 0 && (params_.repeat_penalty != 1 || params_.presence_penalty != 0 || params_.frequency_penalty != 0);
}

bool Sampler::is_argmax() const { return !(params_.temperature > 0) && !penalties_on() && params_.logit_bias.empty(); }

void Sampler::accept(Token token) {
  if (token < 0 || !penalties_on()) return;
  if (size_t(token) >= count_.size()) {
    count_.resize(size_t(token) + 1);
    seen_.resize(size_t(token) + 1);
  }
  count_[size_t(token)]++;
  if (params_.penalty_last_n < 0 || window_.size() < size_t(params_.penalty_last_n)) {
    window_.push_back(token);
    return;
  }
  count_[size_t(window_[window_at_])]--;
  window_[window_at_] = token;
  window_at_ = (window_at_ + 1) % window_.size();
}

// Bias and penalties.
std::span<const f32> Sampler::adjust(std::span<const f32> logits) {
  bool penalties = penalties_on() && !window_.empty();
  if (!penalties && params_.logit_bias.empty()) return logits;
  adjusted_.assign(logits.begin(), logits.end());
  for (auto [token, bias] : params_.logit_bias) {
    if (token >= 0 && size_t(token) < adjusted_.size()) adjusted_[size_t(token)] += bias;
  }
  if (!penalties) return adjusted_;
  call_++;
  if (call_ == 0) {  // after 2^32 calls the marks of the first ones would count again
    std::fill(seen_.begin(), seen_.end(), 0);
    call_ = 1;
  }
  for (Token token : window_) {
    if (size_t(token) >= adjusted_.size() || seen_[size_t(token)] == call_) continue;
    seen_[size_t(token)] = call_;
    f32& x = adjusted_[size_t(token)];
    x = x > 0 ? x / params_.repeat_penalty : x * params_.repeat_penalty;
    x -= f32(count_[size_t(token)]) * params_.frequency_penalty + params_.presence_penalty;
  }
  return adjusted_;
}

Token Sampler::sample(std::span<const f32> raw) {
  size_t n = raw.size();
  if (n == 0) return -1;
  std::span<const f32> logits = adjust(raw);
  block_max_.clear();
  for (size_t at = 0; at < n; at += block) block_max_.push_back(max_of(&logits[at], std::min(block, n - at)));
  f32 max = max_of(block_max_.data(), block_max_.size());
  if (max == -infinity) return 0;
  if (!(params_.temperature > 0)) {
    size_t at = size_t(std::find(block_max_.begin(), block_max_.end(), max) - block_max_.begin()) * block;
    while (logits[at] != max) at++;
    return Token(at);
  }
  max = std::min(max, largest);
  size_t k = params_.top_k > 0 ? std::min(size_t(params_.top_k), n) : n;
  bool top_p = params_.top_p<1, min_p = params_.min_p> 0;
  f32 least = min_p ? std::min(max, max + f32(std::log(f64(params_.min_p)))) : -infinity;
  if (k < n) {
    select_top_k(logits, k);
    if (top_p) {
      f64 total = 0, mass = 0;
      for (const Candidate& c : candidates_) total += f64(exp1(c.logit - max));
      size_t keep = 0;
      while (keep < candidates_.size() && (keep == 0 || mass < f64(params_.top_p) * total))
        mass += f64(exp1(candidates_[keep++].logit - max));
      candidates_.resize(keep);
    }
  } else if (top_p) {
    select_top_p(logits, max);
  } else if (min_p) {
    select_at_least(logits, least);
  } else {
    return Token(draw(logits, max));
  }
  std::erase_if(candidates_, [least](const Candidate& c) { return c.logit < least; });
  order_.clear();
  for (const Candidate& c : candidates_) order_.push_back(c.logit);
  return candidates_[draw(order_, max)].token;
}

// The k largest, likeliest first.  k blocks have a maximum of at least T, the k-th largest maximum; so k logits do, and all that are larger
// lie in fewer than k blocks: only those are looked at again.  Of logits equal to T the first ones are enough.
void Sampler::select_top_k(std::span<const f32> logits, size_t k) {
  f32 threshold = -infinity;
  if (k < block_max_.size()) {
    order_.assign(block_max_.begin(), block_max_.end());
    std::nth_element(order_.begin(), order_.begin() + std::ptrdiff_t(k) - 1, order_.end(), std::greater<>());
    threshold = order_[k - 1];
  }
  candidates_.clear();
  ties_.clear();
  for (size_t b = 0; b < block_max_.size(); b++) {
    if (!(block_max_[b] >= threshold)) continue;
    for (size_t i = b * block, end = std::min(i + block, logits.size()); i < end; i++) {
      f32 x = logits[i];
      if (x > threshold)
        candidates_.push_back({std::min(x, largest), Token(i)});
      else if (x == threshold && x > -infinity && ties_.size() < k)
        ties_.push_back({std::min(x, largest), Token(i)});
    }
  }
  if (candidates_.size() < k) {
    size_t more = std::min(k - candidates_.size(), ties_.size());
    candidates_.insert(candidates_.end(), ties_.begin(), ties_.begin() + std::ptrdiff_t(more));
  }
  if (candidates_.size() > k) {
    std::nth_element(candidates_.begin(), candidates_.begin() + std::ptrdiff_t(k), candidates_.end());
    candidates_.resize(k);
  }
  std::sort(candidates_.begin(), candidates_.end());
}

// All logits of at least `least`, by id.
void Sampler::select_at_least(std::span<const f32> logits, f32 least) {
  candidates_.clear();
  for (size_t b = 0; b < block_max_.size(); b++) {
    if (!(block_max_[b] >= least)) continue;
    for (size_t i = b * block, end = std::min(i + block, logits.size()); i < end; i++) {
      if (logits[i] >= least && logits[i] > -infinity) candidates_.push_back({std::min(logits[i], largest), Token(i)});
    }
  }
}

// The shortest prefix, likeliest first, of all logits that has mass top_p; by id.  Instead of sorting everything: masses of narrow bins of
// logits tell in which bin the prefix ends, and only that one is sorted.
void Sampler::select_top_p(std::span<const f32> logits, f32 max) {
  constexpr f32 per_unit = 64, bins = 64 * per_unit;  // behind that, weights are below 2e-28
  auto bin_of = [max](f32 x) { return size_t(std::min((max - std::min(x, largest)) * per_unit, bins - 1)); };
  f64 wanted = f64(params_.top_p) * weigh(logits, max, 1, weights_, sums_);
  bin_mass_.assign(size_t(bins), 0);
  for (size_t i = 0; i < logits.size(); i++) {
    if (weights_[i] > 0) bin_mass_[bin_of(logits[i])] += f64(weights_[i]);
  }
  size_t bin = 0;
  f64 mass = 0;
  while (bin + 1 < bin_mass_.size() && mass + bin_mass_[bin] < wanted) mass += bin_mass_[bin++];
  ties_.clear();
  auto candidate = [&](size_t i) { return Candidate{std::min(logits[i], largest), Token(i)}; };
  for (size_t i = 0; i < logits.size(); i++) {
    if (weights_[i] > 0 && bin_of(logits[i]) == bin) ties_.push_back(candidate(i));
  }
  std::sort(ties_.begin(), ties_.end());
  size_t keep = 0;
  while (keep < ties_.size() && (keep == 0 || mass < wanted)) mass += f64(weights_[size_t(ties_[keep++].token)]);
  candidates_.clear();
  if (keep == 0) return select_at_least(logits, -infinity);  // rounding left the last bin without a share: everything
  for (size_t i = 0; i < logits.size(); i++) {
    if (weights_[i] > 0 && !(ties_[keep - 1] < candidate(i))) candidates_.push_back(candidate(i));
  }
}

// Position of one of x, drawn with the weights of weigh().
size_t Sampler::draw(std::span<const f32> x, f32 max) {
  f64 left = random_.uniform() * weigh(x, max, params_.temperature, weights_, sums_);
  size_t b = 0;
  while (b < sums_.size() && left >= f64(sums_[b])) left -= f64(sums_[b++]);
  for (size_t i = b * block, end = std::min(i + block, x.size()); i < end; i++) {
    if (left < f64(weights_[i])) return i;
    left -= f64(weights_[i]);
  }
  // Rounding left us behind the end, once in 10^7 times: the likeliest.
  return size_t(std::find_if(x.begin(), x.end(), [max](f32 v) { return v >= max; }) - x.begin());
}

}  // namespace fewbit::runtime
