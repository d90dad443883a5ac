#include "gguf/quantize.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <variant>

#include "format/refit.h"
#include "gguf/cursor.h"

namespace fewbit::gguf {
namespace {

// One vector of weights per matrix of the tensor (one for all, if the importance matrix has only one).
struct Importance {
  std::vector<std::vector<f32>> of;
  i64 without_data = 0, zero_columns = 0;

  std::span<const f32> row(i64 matrix) const {
    if (of.empty()) return {};
    return of[of.size() == 1 ? 0 : size_t(matrix)];
  }
};

Importance importance_of(const TensorPlan& p, const QuantizeOptions& o) {
  Importance out;
  if (!o.imatrix) return out;
  auto it = o.imatrix->entries.find(p.from->name);
  if (it == o.imatrix->entries.end()) return out;
  const Imatrix::Entry& e = it->second;
  std::vector<f64> mean(static_cast<size_t>(e.n_in));
  i64 used = 0;
  for (i64 m = 0; m < e.n_matrices; m++) {
    std::vector<f32> w = e.importance(m);
    if (w.empty()) {
      out.without_data++;
    } else {
      used++;
      f64 sum = 0;
      for (f32 v : w) sum += f64(v);
      // A column that never was anything may still be: a weight of nothing would let a search write anything.
      const f32 least = f32(sum / f64(w.size()) * 1e-6);
      for (f32& v : w) {
        if (v == 0) v = least, out.zero_columns++;
      }
      for (size_t i = 0; i < w.size(); i++) mean[i] += f64(w[i]);
    }
    out.of.push_back(std::move(w));
  }
  if (used == 0) {
    out.of.clear();
    return out;
  }
  for (std::vector<f32>& w : out.of) {
    if (!w.empty()) continue;
    for (f64 v : mean) w.push_back(f32(v / f64(used)));
  }
  if (p.folded) {
    for (std::vector<f32>& w : out.of) fold_importance(w, o.fold->block);
  }
  return out;
}

struct Sink {
  std::variant<Writer, SplitWriter> w;
  Status write(std::span<const u8> b) {
    return std::visit([&](auto& x) { return x.write(b); }, w);
  }
  Status finish() {
    return std::visit([](auto& x) { return x.finish(); }, w);
  }
};

Result<Sink> open_sink(const QuantizePlan& plan, const QuantizeOptions& o, const std::string& path) {
  std::vector<TensorInfo> infos;
  for (const TensorPlan& p : plan.tensors)
    infos.push_back({p.from->name, p.to, {p.from->dims.begin(), p.from->dims.begin() + std::max(1, p.from->n_dims)}});
  if (o.split_bytes == 0) {
    FEWBIT_TRY(Writer w, Writer::create(path, plan.metadata, infos));
    return Sink{std::move(w)};
  }
  std::string prefix = path;
  if (prefix.ends_with(".gguf")) prefix.resize(prefix.size() - 5);
  FEWBIT_TRY(SplitWriter w, SplitWriter::create(prefix, plan.metadata, infos, o.split_bytes));
  return Sink{std::move(w)};
}

// Errors of rows, added in the order of the rows: the sums are the same at any number of threads.
struct RowError {
  f64 square = 0, error = 0;
  bool exact = true;
};
RowError row_error(std::span<const f32> x, std::span<const f32> y) {
  RowError e;
  for (size_t i = 0; i < x.size(); i++) {
    const f64 d = f64(x[i]) - f64(y[i]);
    e.square += f64(x[i]) * f64(x[i]);
    e.error += d * d;
    e.exact &= x[i] == y[i];
  }
  return e;
}

struct Job {
  const File& file;
  const QuantizePlan& plan;
  const QuantizeOptions& o;
  ThreadPool& pool;
  Sink& sink;
  std::function<Status(i64 elements)> tick;  // progress; an error when cancelled

  static constexpr i64 piece_elements = i64(1) << 21, grain_elements = 1 << 15;

  Status copy(const Tensor& t) {
    constexpr size_t piece = size_t(8) << 20;
    for (size_t at = 0; at < t.data.size(); at += piece) {
      const size_t n = std::min(piece, t.data.size() - at);
      FEWBIT_OK(sink.write(t.data.subspan(at, n)));
      FEWBIT_OK(tick(i64(f64(n) / f64(t.data.size()) * f64(t.elements()))));
    }
    return {};
  }

  // Rows [begin, end) of the tensor, as they are to be rounded.
  void load(const TensorPlan& p, i64 row, std::span<f32> x, std::vector<f64>& work) const {
    const i64 n = p.from->dims[0];
    decode_tensor_row(p.from->type, p.from->data, row, n, x);
    if (!p.folded && !p.embedding) return;
    work.resize(x.size());
    auto s = plan.signs.find(n);
    fold_row(x, s == plan.signs.end() ? std::span<const f32>() : std::span<const f32>(s->second), o.fold->block, work);
  }

  Status whole(const TensorPlan& p, RowError& total) {  // I2_S: one scale for all
    const Tensor& t = *p.from;
    std::vector<f32> x(static_cast<size_t>(t.elements())), y(x.size());
    std::vector<f64> work;
    for (i64 r = 0; r < t.rows(); r++) load(p, r, std::span(x).subspan(size_t(r * t.dims[0]), size_t(t.dims[0])), work);
    std::vector<u8> out(p.bytes);
    FEWBIT_OK(encode_tensor(p.to, x, t.dims[0], {}, out));
    decode_tensor(p.to, out, y);
    total = row_error(x, y);
    FEWBIT_OK(sink.write(out));
    return tick(t.elements());
  }

  Status rows(const TensorPlan& p, const Importance& importance, RowError& total) {
    const Tensor& t = *p.from;
    const i64 n = t.dims[0], all = t.rows(), step = std::clamp<i64>(piece_elements / n, 1, all);
    const u64 out_row = row_bytes(p.to, n);
    std::vector<u8> out(size_t(step) * out_row);
    std::vector<RowError> errors(static_cast<size_t>(step));
    std::mutex mutex;
    i64 bad_row = -1;
    Error bad;
    for (i64 first = 0; first < all; first += step) {
      const i64 count = std::min(step, all - first);
      pool.for_range(count, std::max<i64>(1, grain_elements / n), [&](i64 begin, i64 end, int) {
        std::vector<f32> x(static_cast<size_t>(n)), y(x.size());
        std::vector<f64> work;
        for (i64 i = begin; i < end; i++) {
          load(p, first + i, x, work);
          std::span<u8> blocks = std::span(out).subspan(size_t(i) * out_row, out_row);
          if (Status s = encode_row(p.to, x, importance.row((first + i) / t.dims[1]), blocks); !s.ok()) {
            std::lock_guard lock(mutex);
            if (bad_row < 0 || first + i < bad_row) bad_row = first + i, bad = s.error();
            return;
          }
          refit_scales(p.to, x, importance.row((first + i) / t.dims[1]), blocks);
          decode_row(p.to, blocks, y);
          errors[size_t(i)] = row_error(x, y);
        }
      });
      if (bad_row >= 0) return Error{bad.code, fmt::format("row {}: {}", bad_row, bad.what)};
      for (i64 i = 0; i < count; i++) {
        total.square += errors[size_t(i)].square;
        total.error += errors[size_t(i)].error;
        total.exact &= errors[size_t(i)].exact;
      }
      FEWBIT_OK(sink.write(std::span(out).first(size_t(count) * out_row)));
      FEWBIT_OK(tick(count * n));
    }
    return {};
  }

  Result<TensorReport> tensor(const TensorPlan& p) {
    const Tensor& t = *p.from;
    TensorReport r{t.name, t.type, p.to, t.data.size(), p.bytes, 0, true, 0, 0, p.note};
    Status s;
    if (p.copy) {
      s = copy(t);
    } else {
      const Importance importance = importance_of(p, o);
      r.without_data = importance.without_data;
      r.zero_columns = importance.zero_columns;
      RowError total;
      s = p.to == Type::I2_S ? whole(p, total) : rows(p, importance, total);
      r.relative_rmse = total.square > 0 ? std::sqrt(total.error / total.square) : 0;
      r.exact = total.exact;
    }
    file.drop(t);
    if (!s.ok() && s.error().code == Code::cancelled) return std::move(s).error();
    if (!s.ok()) return Error{s.error().code, fmt::format("tensor '{}': {}", printable(t.name), s.error().what)};
    if (p.exact && !r.exact) return Error{Code::bad_file, fmt::format("tensor '{}': changed while it was read", printable(t.name))};
    return r;
  }
};

}  // namespace

Result<std::vector<TensorReport>> quantize(const File& file, const QuantizePlan& plan, const QuantizeOptions& o, const std::string& path,
                                           ThreadPool& pool, const QuantizeProgress& progress) {
  i64 all = 0, done = 0;
  for (const TensorPlan& p : plan.tensors) all += p.from->elements();
  FEWBIT_TRY(Sink sink, open_sink(plan, o, path));
  const std::string* name = nullptr;
  Job job{file, plan, o, pool, sink, [&](i64 n) -> Status {
            done += n;
            if (progress) progress(done, all, *name);
            if (o.cancel && *o.cancel) return Error{Code::cancelled, "stopped; nothing was written"};
            return {};
          }};
  std::vector<TensorReport> reports;
  for (const TensorPlan& p : plan.tensors) {
    name = &p.from->name;
    FEWBIT_TRY(TensorReport r, job.tensor(p));
    reports.push_back(std::move(r));
  }
  FEWBIT_OK(sink.finish());
  return reports;
}

}  // namespace fewbit::gguf
