#include "runtime/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "runtime/kl_file.h"

namespace fewbit::runtime {

static f64 now() { return std::chrono::duration<f64>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

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

  Status add(std::span<f32> logits, Token next) {
    f64 nll;
    if (!save && !base) {
      nll = nll_of(logits, next);
    } else {
      log_softmax(logits);
      nll = -f64(logits[size_t(next)]);
      if (save) FEWBIT_OK(save->write(logits, f32(nll)));
      if (base) FEWBIT_OK(compare(logits));
    }
    if (!std::isfinite(nll))
      return Error{Code::bad_file, fmt::format("prediction {} is not finite: the model's weights or the path are broken", n)};
    sum += nll;
    sum2 += nll * nll;
    n++;
    return {};
  }

  Status compare(std::span<const f32> log_p) {
    f32 base_nll;
    base_p.resize(log_p.size());
    FEWBIT_OK(base->read(base_p, base_nll));
    base_sum += f64(base_nll);
    f64 d = 0;
    for (size_t i = 0; i < log_p.size(); i++) d += std::exp(f64(base_p[i])) * (f64(base_p[i]) - f64(log_p[i]));
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

Result<PerplexityResult> perplexity(Engine& engine, std::span<const Token> tokens, const PerplexityOptions& o) {
  const int vocab = engine.info().vocab, n_ctx = o.n_ctx;
  if (n_ctx < 4) return Error{Code::invalid_argument, fmt::format("-c {}: perplexity needs windows of at least 4 tokens", n_ctx)};
  for (size_t i = 0; i < tokens.size(); i++) {
    if (tokens[i] < 0 || tokens[i] >= vocab) {
      return Error{Code::invalid_argument, fmt::format("token {} of the text is {}, the vocabulary has {}", i, tokens[i], vocab)};
    }
  }
  const int all = int(i64(tokens.size()) / n_ctx), chunks = o.chunks > 0 ? std::min(o.chunks, all) : all;
  if (chunks < 1) return Error{Code::invalid_argument, fmt::format("the text has {} tokens, one window needs {}", tokens.size(), n_ctx)};

  std::vector<Token> text(tokens.begin(), tokens.begin() + i64(chunks) * n_ctx);
  if (const text::Tokenizer* t = engine.tokenizer(); t && t->add_bos() && t->bos() >= 0) {
    for (int c = 0; c < chunks; c++) text[size_t(c) * size_t(n_ctx)] = t->bos();
  }
  Counter count;
  if (!o.kl_save.empty()) { FEWBIT_TRY(count.save, KlFile::create(o.kl_save, vocab, n_ctx, chunks, text)); }
  if (!o.kl_base.empty()) { FEWBIT_TRY(count.base, KlFile::open(o.kl_base, vocab, n_ctx, chunks, text)); }

  const int first = n_ctx / 2, group = std::max(1, engine.options().n_seqs);
  // Logits of this many positions are held at once.
  const int piece = std::max(1, std::min({n_ctx, engine.options().ubatch, int((i64(256) << 20) / (i64(vocab) * 4 * group))}));
  const f64 t0 = now();
  for (int c = 0; c < chunks; c += group) {
    const int n = std::min(group, chunks - c);
    std::vector<SequenceId> seqs;
    for (int i = 0; i < n; i++) {
      FEWBIT_TRY(SequenceId s, engine.new_sequence());
      seqs.push_back(s);
    }
    // nll of a group's windows is counted window by window, so that the sums do not depend on the grouping.
    std::vector<std::vector<f32>> kept(n > 1 ? size_t(n) : 0);
    for (int at = 0; at < n_ctx - 1; at += piece) {
      if (o.cancel && o.cancel->load()) return Error{Code::cancelled, "cancelled"};
      const int end = std::min(at + piece, n_ctx - 1);
      std::vector<StepItem> items;
      for (int i = 0; i < n; i++) {
        const Token* w = text.data() + i64(c + i) * n_ctx;
        StepItem item{seqs[size_t(i)], {w + at, w + end}, {}};
        for (int p = std::max(first, at); p < end; p++) item.want.push_back(p - at);
        items.push_back(std::move(item));
      }
      FEWBIT_TRY(std::span<const f32> logits, engine.step(items));
      size_t row = 0;
      for (int i = 0; i < n; i++) {
        const Token* w = text.data() + i64(c + i) * n_ctx;
        for (int p = std::max(first, at); p < end; p++, row++) {
          std::vector<f32> x(logits.begin() + i64(row) * vocab, logits.begin() + i64(row + 1) * vocab);
          if (n > 1) {
            kept[size_t(i)].insert(kept[size_t(i)].end(), x.begin(), x.end());
          } else {
            FEWBIT_OK(count.add(x, w[p + 1]));
          }
        }
      }
    }
    for (size_t i = 0; i < kept.size(); i++) {
      const Token* w = text.data() + i64(c + int(i)) * n_ctx;
      for (int p = first; p < n_ctx - 1; p++) FEWBIT_OK(count.add({kept[i].data() + i64(p - first) * vocab, size_t(vocab)}, w[p + 1]));
    }
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
  r.seconds = now() - t0;
  if (count.base) {
    r.has_kl = true;
    r.kl = count.statistics();
  }
  return r;
}

}  // namespace fewbit::runtime
