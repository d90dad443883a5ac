#include "gguf/imatrix.h"

#include <algorithm>
#include <cmath>

#include "gguf/cursor.h"

namespace fewbit::gguf {

namespace {

bool is_good(f64 x) { return std::isfinite(x) && x >= 0; }

// Sums that are no numbers, or negative, say nothing: the mean of the others of their matrix stands for them.  Without a good one, or
// with nothing but zeros, nobody looked: the matrix has no data.
struct Judged {
  f64 mean = 0;  // of the good sums; 0: no data
  i64 bad = 0;
};
Judged judge(const Imatrix::Entry& e, i64 m) {
  const f64 count = e.counts[size_t(m)];
  Judged j;
  f64 sum = 0;
  for (i64 i = 0; i < e.n_in; i++) {
    const f64 x = e.sums[size_t(m * e.n_in + i)];
    is_good(x) ? sum += x : j.bad++;
  }
  if (is_good(count) && count > 0 && j.bad < e.n_in) j.mean = sum / f64(e.n_in - j.bad);
  return j;
}

// The entry with good numbers only, counts of 0 where there are no data.
Imatrix::Entry mended(Imatrix::Entry e) {
  for (i64 m = 0; m < e.n_matrices; m++) {
    const Judged j = judge(e, m);
    if (j.mean == 0) e.counts[size_t(m)] = 0;
    for (i64 i = 0; i < e.n_in; i++) {
      f64& x = e.sums[size_t(m * e.n_in + i)];
      if (!is_good(x)) x = j.mean;
    }
  }
  return e;
}

std::string note_on(std::string_view name, const Imatrix::Entry& e) {
  i64 bad = 0, empty = 0;
  for (i64 m = 0; m < e.n_matrices; m++) {
    const Judged j = judge(e, m);
    j.mean == 0 ? empty++ : bad += j.bad;
  }
  std::string note;
  if (bad > 0) note = fmt::format(" {} values are no numbers, the mean of the others stands for them", bad);
  if (empty > 0) note += fmt::format("{} {} of {} matrices have no data", bad > 0 ? ";" : "", empty, e.n_matrices);
  return note.empty() ? note : printable(name) + ":" + note;
}

void take_notes(Imatrix& m) {
  for (const auto& [name, e] : m.entries) {
    if (std::string note = note_on(name, e); !note.empty()) m.notes.push_back(std::move(note));
  }
}

Result<Imatrix> from_gguf(const File& f) {
  auto bad = [&](const Tensor& t, const char* what) {
    return Error{Code::bad_file, fmt::format("{}: byte {}: tensor '{}' ({}, {}) {}", f.path(), t.offset, printable(t.name), t.shape(),
                                             type_name(t.type), what)};
  };
  Imatrix out;
  FEWBIT_TRY(std::string type, f.get_string("general.type", std::string("imatrix")));
  if (type != "imatrix") {
    return Error{Code::bad_file, fmt::format("{}: general.type is '{}', not 'imatrix'", f.path(), printable(type))};
  }
  if (const Value* v = f.find("imatrix.datasets")) {
    if (auto* list = v->as_strings()) out.datasets = *list;
  }
  FEWBIT_TRY(out.chunks, f.get_int("imatrix.chunk_count", 0));
  FEWBIT_TRY(out.chunk_size, f.get_int("imatrix.chunk_size", 0));
  FEWBIT_TRY(out.source, f.get_string("fewbit.imatrix.source", std::string()));
  constexpr std::string_view sums = ".in_sum2", counts = ".counts";
  for (const Tensor& t : f.tensors()) {
    if (t.name.ends_with(counts) && !f.tensor(t.name.substr(0, t.name.size() - counts.size()) + std::string(sums))) {
      return bad(t, "has no sums beside it");
    }
    if (!t.name.ends_with(sums)) continue;
    const std::string name = t.name.substr(0, t.name.size() - sums.size());
    const Tensor* c = f.tensor(name + std::string(counts));
    if (!c) return bad(t, "has no counts beside it");
    if (t.type != Type::F32 || c->type != Type::F32) return bad(t, "is not F32 with F32 counts");
    if (c->elements() != t.rows()) return bad(*c, "does not have one count for each row of its sums");
    Imatrix::Entry e;
    e.n_in = t.dims[0];
    e.n_matrices = t.rows();
    for (size_t i = 0; i < t.data.size(); i += 4) e.sums.push_back(load_le<f32>(t.data.data() + i));
    for (size_t i = 0; i < c->data.size(); i += 4) e.counts.push_back(load_le<f32>(c->data.data() + i));
    out.entries.emplace(name, std::move(e));
  }
  take_notes(out);
  return out;
}

Result<Imatrix> from_dat(std::span<const u8> bytes, const std::string& file) {
  Cursor c(bytes, file);
  auto text = [&](const std::string& what, i32 least, i32 most) -> Result<std::string> {
    const u64 at = c.at();
    FEWBIT_TRY(i32 n, c.number<i32>(what));
    if (n < least || n > most || u64(n) > c.left())
      return c.fail(at, "{}: {} bytes, expected {} to {}, {} are left", what, n, least, most, c.left());
    const u8* p = c.take(u64(n), 1);
    return std::string(p, p + n);
  };
  FEWBIT_TRY(i32 entries, c.number<i32>("number of entries"));
  // The shortest entry is a name of one letter with one number.
  if (entries < 1 || u64(entries) > c.left() / 17)
    return c.fail(0, "{} entries in {} bytes: not an importance matrix", entries, bytes.size());
  Imatrix out;
  out.rows_known = false;
  for (i32 i = 0; i < entries; i++) {
    const u64 at = c.at();
    FEWBIT_TRY(std::string name, text(fmt::format("name of entry {} of {}", i, entries), 1, 1024));
    FEWBIT_TRY(i32 calls, c.number<i32>("calls of '" + printable(name) + "'"));
    const u64 n_at = c.at();
    FEWBIT_TRY(i32 n, c.number<i32>("length of '" + printable(name) + "'"));
    if (n < 1 || u64(n) > c.left() / 4) return c.fail(n_at, "entry '{}' has {} numbers, {} bytes are left", printable(name), n, c.left());
    Imatrix::Entry e;
    e.n_in = n;
    e.counts = {f64(calls)};
    const u8* p = c.take(u64(n), 4);
    for (i32 k = 0; k < n; k++) e.sums.push_back(load_le<f32>(p + 4 * k));
    if (!out.entries.emplace(name, std::move(e)).second) return c.fail(at, "entry '{}' appears twice", printable(name));
  }
  if (c.left() > 0) {  // old files end here
    FEWBIT_TRY(i32 chunks, c.number<i32>("number of chunks"));
    out.chunks = std::max(chunks, 0);
    if (c.left() > 0) {
      FEWBIT_TRY(std::string dataset, text("name of the data set", 0, 65536));
      out.datasets.push_back(std::move(dataset));
    }
  }
  take_notes(out);
  return out;
}

}  // namespace

std::vector<f32> Imatrix::Entry::importance(i64 m) const {
  if (m < 0 || m >= n_matrices) return {};
  const Judged j = judge(*this, m);
  if (j.mean == 0) return {};
  std::vector<f32> out(static_cast<size_t>(n_in));
  for (i64 i = 0; i < n_in; i++) {
    const f64 x = sums[size_t(m * n_in + i)];
    out[size_t(i)] = f32((is_good(x) ? x : j.mean) / counts[size_t(m)]);
  }
  return out;
}

i64 Imatrix::Entry::unused() const {
  i64 n = 0;
  for (i64 m = 0; m < n_matrices; m++) n += judge(*this, m).mean == 0;
  return n;
}

Result<Imatrix> Imatrix::parse(std::span<const u8> bytes, const std::string& name) {
  if (bytes.size() >= 4 && std::equal(bytes.begin(), bytes.begin() + 4, "GGUF")) {
    FEWBIT_TRY(File f, File::parse(bytes, name));
    return from_gguf(f);
  }
  return from_dat(bytes, name);
}

Result<Imatrix> Imatrix::read(const std::string& path) {
  FEWBIT_TRY(Mapping m, Mapping::open(path));
  return parse(m.bytes(), path);
}

Status Imatrix::split(std::string_view name, i64 n_in) {
  auto it = entries.find(name);
  if (it == entries.end() || it->second.n_in == n_in) return {};
  Entry& e = it->second;
  if (n_in < 1 || e.n_matrices != 1 || e.n_in % n_in != 0) {
    return Error{Code::bad_file, fmt::format("importance matrix: '{}' has {} x {} numbers, the weight's rows have {}", printable(name),
                                             e.n_in, e.n_matrices, n_in)};
  }
  e.n_matrices = e.n_in / n_in;
  e.n_in = n_in;
  e.counts.assign(size_t(e.n_matrices), e.counts[0]);
  std::erase_if(notes, [&](const std::string& n) { return n.starts_with(printable(name) + ":"); });
  if (std::string note = note_on(name, e); !note.empty()) notes.push_back(std::move(note));
  return {};
}

// Entry e of `chunks` chunks, whose rows are not known, with as many rows per chunk as `known` has.
static Imatrix::Entry with_rows(Imatrix::Entry e, i64 chunks, const Imatrix::Entry& known, i64 known_chunks) {
  if (chunks < 1 || known_chunks < 1) return e;
  f64 mean = 0;
  for (f64 c : known.counts) mean += c / f64(known.counts.size());
  for (size_t m = 0; m < e.counts.size(); m++) {
    if (!(e.counts[m] > 0)) continue;
    const f64 rows = (known.counts[m] > 0 ? known.counts[m] : mean) * f64(chunks) / f64(known_chunks), factor = rows / e.counts[m];
    for (i64 i = 0; i < e.n_in; i++) e.sums[m * size_t(e.n_in) + size_t(i)] *= factor;
    e.counts[m] = rows;
  }
  return e;
}

Status Imatrix::merge(const Imatrix& other) {
  for (const auto& [name, o] : other.entries) {
    auto it = entries.find(name);
    if (it != entries.end() && (it->second.n_in != o.n_in || it->second.n_matrices != o.n_matrices)) {
      return Error{Code::bad_file, fmt::format("importance matrix: '{}' is {} x {} here and {} x {} there", printable(name),
                                               it->second.n_in, it->second.n_matrices, o.n_in, o.n_matrices)};
    }
  }
  for (const auto& [name, o] : other.entries) {
    Entry sum = mended(o);
    if (auto it = entries.find(name); it != entries.end()) {
      Entry own = mended(it->second);
      if (rows_known && !other.rows_known) sum = with_rows(std::move(sum), other.chunks, own, chunks);
      if (!rows_known && other.rows_known) own = with_rows(std::move(own), chunks, sum, other.chunks);
      for (size_t i = 0; i < sum.sums.size(); i++) sum.sums[i] += own.sums[i];
      for (size_t i = 0; i < sum.counts.size(); i++) sum.counts[i] += own.counts[i];
    }
    entries.insert_or_assign(name, std::move(sum));
  }
  for (const std::string& d : other.datasets) {
    if (std::find(datasets.begin(), datasets.end(), d) == datasets.end()) datasets.push_back(d);
  }
  chunks += other.chunks;
  rows_known |= other.rows_known;
  if (chunk_size == 0) chunk_size = other.chunk_size;
  source.clear();
  notes.insert(notes.end(), other.notes.begin(), other.notes.end());
  return {};
}

Status Imatrix::write(const std::string& path) const {
  std::vector<KeyValue> keys{{"general.type", Value::of(std::string("imatrix"))},
                             {"imatrix.datasets", Value::of(datasets)},
                             {"imatrix.chunk_count", Value::of(u32(std::clamp<i64>(chunks, 0, 0xffffffff)))},
                             {"imatrix.chunk_size", Value::of(u32(std::clamp<i64>(chunk_size, 0, 0xffffffff)))}};
  if (!source.empty()) keys.push_back({"fewbit.imatrix.source", Value::of(source)});
  std::vector<TensorInfo> infos;
  for (const auto& [name, e] : entries) {
    infos.push_back({name + ".in_sum2", Type::F32, {e.n_in, e.n_matrices}});
    infos.push_back({name + ".counts", Type::F32, {1, e.n_matrices}});
  }
  FEWBIT_TRY(Writer w, Writer::create(path, keys, infos));
  for (const auto& [name, e] : entries) {
    const Entry good = mended(e);
    for (const std::vector<f64>* x : {&good.sums, &good.counts}) {
      const std::vector<f32> narrow(x->begin(), x->end());
      FEWBIT_OK(w.write({reinterpret_cast<const u8*>(narrow.data()), narrow.size() * 4}));
    }
  }
  return w.finish();
}

std::string source_of(std::span<const i32> tokens, const File& model) {
  u64 h = 0xcbf29ce484222325;  // FNV-1a
  auto add = [&](const void* p, size_t n) {
    for (size_t i = 0; i < n; i++) h = (h ^ static_cast<const u8*>(p)[i]) * 0x100000001b3;
  };
  add(tokens.data(), tokens.size_bytes());
  for (const Tensor& t : model.tensors()) {
    add(t.name.data(), t.name.size());
    add(&t.type, sizeof t.type);
    add(t.dims.data(), sizeof t.dims);
    add(t.data.data(), std::min<size_t>(t.data.size(), 64));
  }
  return fmt::format("{:016x}", h);
}

}  // namespace fewbit::gguf
