#include "runtime/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/clock.h"
#include "runtime/kl_file.h"

namespace fewbit::runtime {

// logits -> ln p in place, sums in double.
static void log_softmax(std::span<f32> x) {
  const f32 top = *std::max_element(x.begin(), x.end());
  f64 sum = 0;
  for (f32 v : x) sum += std::exp(f64(v) - f64(top));
  const f64 lse = f64(top) + std::log(sum);
  for (f32& v : x) v = f32(f64(v) - lse);
}

static f64 nll_of(std::span<const f32> logits, Token next) {
  const f32 top = *std::max_element(logits.begin(), logits.end());
  f64 sum = 0;
  for (f32 v : logits) sum += std::exp(f64(v) - f64(top));
  return f64(top) + std::log(sum) - f64(logits[size_t(next)]);
}

namespace {

// Sums over all counted predictions, in the order of the text.
struct Counter {
  f64 sum = 0, sum2 = 0, base_sum = 0;
  i64 n = 0, same_top = 0;
  std::vector<f64> kl;
  std::optional<KlFile> save, base;
  std::vector<f32> base_p;

  bool needs_all() const { return save || base; }

  Status add(std::span<f32> logits, Token next) {
    const f64 nll = nll_of(logits, next);
    if (needs_all()) {
      log_softmax(logits);
      if (save) FEWBIT_OK(save->write(logits, nll));
      if (base) FEWBIT_OK(compare(logits));
    }
    return add(nll);
  }

  Status add(f64 nll) {
    if (!std::isfinite(nll))
      return Error{Code::bad_file, fmt::format("prediction {} is not finite: the model's weights or the path are broken", n)};
    sum += nll;
    sum2 += nll * nll;
    n++;
    return {};
  }

  Status compare(std::span<const f32> log_p) {
    f64 base_nll;
    base_p.resize(log_p.size());
    FEWBIT_OK(base->read(base_p, base_nll));
    base_sum += base_nll;
    f64 d = 0;
    for (size_t i = 0; i < log_p.size(); i++) {
      if (f64 p = std::exp(f64(base_p[i])); p > 0) d += p * (f64(base_p[i]) - f64(log_p[i]));  // 0 ln 0 = 0
    }
    if (!std::isfinite(d))
      return Error{Code::bad_file, fmt::format("prediction {}: the distance from the stored one is not finite", kl.size())};
    kl.push_back(std::max(0.0, d));
    same_top +=
        std::max_element(log_p.begin(), log_p.end()) - log_p.begin() == std::max_element(base_p.begin(), base_p.end()) - base_p.begin();
    return {};
  }

  KlStatistics statistics() {
    KlStatistics s;
    const f64 count = f64(kl.size());
    f64 total = 0, total2 = 0;
    for (f64 d : kl) total += d, total2 += d * d;
    s.mean = total / count;
    s.mean_error = count > 1 ? std::sqrt(std::max(0.0, total2 / count - s.mean * s.mean) / (count - 1)) : 0;
    std::sort(kl.begin(), kl.end());
    auto at = [&](f64 q) { return kl[size_t(std::min(count - 1, q * count))]; };
    s.median = at(0.5), s.p90 = at(0.9), s.p99 = at(0.99), s.p999 = at(0.999), s.max = kl.back();
    s.same_top = f64(same_top) / count;
    s.base_perplexity = std::exp(base_sum / count);
    return s;
  }
};

}  // namespace

Status check_text(std::span<const Token> tokens, const PerplexityOptions& o, int vocab) {
  if (o.n_ctx < 4) return Error{Code::invalid_argument, fmt::format("-c {}: perplexity needs windows of at least 4 tokens", o.n_ctx)};
  for (size_t i = 0; i < tokens.size(); i++) {
    if (tokens[i] < 0 || tokens[i] >= vocab) {
      return Error{Code::invalid_argument, fmt::format("token {} of the text is {}, the vocabulary has {}", i, tokens[i], vocab)};
    }
  }
  if (i64(tokens.size()) < o.n_ctx)
    return Error{Code::invalid_argument, fmt::format("the text has {} tokens, one window needs {} (-c)", tokens.size(), o.n_ctx)};
  return {};
}

Result<PerplexityResult> perplexity(Engine& engine, std::span<const Token> tokens, const PerplexityOptions& o) {
  const int vocab = engine.info().vocab, n_ctx = o.n_ctx;
  FEWBIT_OK(check_text(tokens, o, vocab));
  const int all = int(i64(tokens.size()) / n_ctx), chunks = o.chunks > 0 ? std::min(o.chunks, all) : all;
  std::vector<Token> text(tokens.begin(), tokens.begin() + i64(chunks) * n_ctx);
  if (const text::Tokenizer* t = engine.tokenizer(); t && t->add_bos() && t->bos() >= 0) {
    for (int c = 0; c < chunks; c++) text[size_t(c) * size_t(n_ctx)] = t->bos();
  }
  Counter count;
  if (!o.kl_save.empty()) { FEWBIT_TRY(count.save, KlFile::create(o.kl_save, vocab, n_ctx, chunks, text)); }
  if (!o.kl_base.empty()) { FEWBIT_TRY(count.base, KlFile::open(o.kl_base, vocab, n_ctx, chunks, text)); }

  // Stored log-probabilities are read and written in the order of the text, so then windows come one by one.
  const int first = n_ctx / 2, group = count.needs_all() ? 1 : std::max(1, engine.options().n_seqs);
  // Logits of this many positions are held at once.
  const int piece = std::max(1, std::min({n_ctx, engine.options().ubatch, engine.options().logits / group}));
  std::vector<f32> own;  // one row of logits
  f64 so_far = 0;
  i64 n_so_far = 0;
  const f64 t0 = now_s();
  auto cancelled = [&](int done) {
    return Error{Code::cancelled, fmt::format("cancelled after {} of {} windows{}", done, chunks,
                                              done ? fmt::format(", whose perplexity is {:.4f}", std::exp(so_far / f64(n_so_far))) : "")};
  };
  for (int c = 0; c < chunks; c += group) {
    const int n = std::min(group, chunks - c);
    so_far = count.sum;  // of whole windows
    n_so_far = count.n;
    std::vector<SequenceId> seqs;
    for (int i = 0; i < n; i++) {
      FEWBIT_TRY(SequenceId s, engine.new_sequence());
      seqs.push_back(s);
    }
    // nll of a group's windows is counted window by window, so that the sums do not depend on the grouping.
    std::vector<std::vector<f64>> kept(n > 1 ? size_t(n) : 0);
    for (int at = 0; at < n_ctx - 1; at += piece) {
      if (o.cancel && o.cancel->load()) return cancelled(c);
      const int end = std::min(at + piece, n_ctx - 1);
      std::vector<StepItem> items;
      for (int i = 0; i < n; i++) {
        const Token* w = text.data() + i64(c + i) * n_ctx;
        StepItem item{seqs[size_t(i)], {w + at, w + end}, {}};
        for (int p = std::max(first, at); p < end; p++) item.want.push_back(p - at);
        items.push_back(std::move(item));
      }
      auto out = engine.step(items);
      if (!out.ok() && out.error().code == Code::cancelled) return cancelled(c);
      FEWBIT_TRY(std::span<const f32> logits, std::move(out));
      FEWBIT_OK(engine.finite());
      size_t row = 0;
      for (int i = 0; i < n; i++) {
        const Token* w = text.data() + i64(c + i) * n_ctx;
        for (int p = std::max(first, at); p < end; p++, row++) {
          std::span<const f32> x = logits.subspan(row * size_t(vocab), size_t(vocab));
          if (n > 1) {
            kept[size_t(i)].push_back(nll_of(x, w[p + 1]));
          } else {
            own.assign(x.begin(), x.end());
            FEWBIT_OK(count.add(own, w[p + 1]));
          }
        }
      }
    }
    for (const std::vector<f64>& window : kept)
      for (f64 nll : window) FEWBIT_OK(count.add(nll));
    for (SequenceId s : seqs) engine.free_sequence(s);
    if (o.progress) o.progress(c + n, chunks, std::exp(count.sum / f64(count.n)));
  }
  if (count.save) FEWBIT_OK(count.save->finish());

  PerplexityResult r;
  const f64 n = f64(count.n);
  r.mean_nll = count.sum / n;
  r.perplexity = std::exp(r.mean_nll);
  r.error = n > 1 ? std::sqrt(std::max(0.0, count.sum2 / n - r.mean_nll * r.mean_nll) / (n - 1)) * r.perplexity : 0;
  r.chunks = chunks;
  r.n_ctx = n_ctx;
  r.tokens = i64(tokens.size());
  r.counted = count.n;
  r.seconds = now_s() - t0;
  if (count.base) {
    r.has_kl = true;
    r.kl = count.statistics();
  }
  return r;
}

}  // namespace fewbit::runtime
