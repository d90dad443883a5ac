#include "runtime/imatrix_collect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fewbit::runtime {
namespace {

struct Collector {
  const gguf::File& file;
  bool head;
  gguf::Imatrix& into;
  i64 bad = 0;  // inputs that are no numbers: left out
  std::string problem;

  void add(const std::string& name, int expert, const f32* x, int n, int cols) {
    if (!head && (name == "output.weight" || name == "token_embd.weight")) return;
    gguf::Imatrix::Entry& e = into.entries[name];
    if (e.sums.empty()) {
      const gguf::Tensor* t = file.tensor(name);
      e.n_in = n;
      e.n_matrices = expert < 0 || !t ? 1 : t->dims[2];
      e.sums.assign(size_t(e.n_in * e.n_matrices), 0);
      e.counts.assign(size_t(e.n_matrices), 0);
    }
    const i64 m = std::max(expert, 0);
    if (e.n_in != n || m >= e.n_matrices) {
      if (problem.empty())
        problem = fmt::format("'{}': the importance matrix has {} x {} numbers, the model wants {} (matrix {})", name, e.n_in, e.n_matrices,
                              n, m);
      return;
    }
    f64* sums = e.sums.data() + m * e.n_in;
    for (int c = 0; c < cols; c++) {
      for (int i = 0; i < n; i++) {
        const f64 v = f64(x[i64(c) * n + i]);
        if (std::isfinite(v)) {
          sums[i] += v * v;
        } else {
          bad++;
        }
      }
    }
    e.counts[size_t(m)] += cols;
  }
};

}  // namespace

Status collect_imatrix(Engine& engine, std::span<const Token> tokens, const CollectOptions& o, gguf::Imatrix& into) {
  if (o.n_ctx < 1) return Error{Code::invalid_argument, fmt::format("-c {}: chunks need at least one token", o.n_ctx)};
  const i64 all_chunks = i64(tokens.size()) / o.n_ctx;
  const i64 all = o.chunks > 0 ? std::min<i64>(o.chunks, all_chunks) : all_chunks;
  if (all_chunks < 1)
    return Error{Code::invalid_argument, fmt::format("the text has {} tokens, one chunk needs {}", tokens.size(), o.n_ctx)};
  Collector c{engine.file(), o.process_head, into, 0, {}};
  engine.tap_inputs([&](const std::string& name, int expert, const f32* x, int n, int cols) { c.add(name, expert, x, n, cols); });
  const text::Tokenizer* tok = engine.tokenizer();
  auto run = [&]() -> Status {
    for (i64 k = o.skip; k < all; k++) {
      std::vector<Token> chunk(tokens.begin() + k * o.n_ctx, tokens.begin() + (k + 1) * o.n_ctx);
      if (tok && tok->add_bos() && tok->bos() >= 0) chunk[0] = tok->bos();
      FEWBIT_TRY(SequenceId seq, engine.new_sequence());
      const size_t piece = size_t(std::max(1, std::min(engine.options().ubatch, 512)));
      Status s;
      for (size_t at = 0; at < chunk.size() && s.ok(); at += piece) {
        StepItem item{seq, {chunk.begin() + i64(at), chunk.begin() + i64(std::min(at + piece, chunk.size()))}, {}};
        if (o.process_head)
          for (size_t i = 0; i < item.tokens.size(); i++) item.want.push_back(int(i));
        if (auto r = engine.step({&item, 1}); !r.ok()) s = std::move(r).error();
      }
      engine.free_sequence(seq);
      FEWBIT_OK(s);
      if (!c.problem.empty()) return Error{Code::bad_file, c.problem};
      into.chunks++;
      if (o.after_chunk) FEWBIT_OK(o.after_chunk(k + 1, all));
      if (o.cancel && *o.cancel) return Error{Code::cancelled, fmt::format("stopped after {} of {} chunks", k + 1, all)};
    }
    return {};
  };
  into.chunk_size = o.n_ctx;
  Status s = run();
  engine.tap_inputs(nullptr);
  if (c.bad > 0) into.notes.push_back(fmt::format("{} inputs were no numbers and were left out", c.bad));
  return s;
}

}  // namespace fewbit::runtime
