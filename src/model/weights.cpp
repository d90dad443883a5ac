#include "model/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/bits.h"
#include "base/log.h"

namespace fewbit::model {

using kernel::GroupUse;
using kernel::HostTensor;
using kernel::Rotation;
using kernel::Weight;

static constexpr u64 slab_bytes = 1 << 20;  // small vectors share allocations of this size
constexpr u64 staging_bytes = 64 << 20;     // that place() takes on a GPU, at most
constexpr i64 gpu_page = 2 << 20;           // in which its memory is given out

std::string block_name(int layer, std::string_view suffix) { return fmt::format("blk.{}.{}", layer, suffix); }

Builder::Builder(const gguf::File& file, const Config& config, std::optional<Hadamard> hadamard, kernel::Ctx& ctx,
                 const LoadOptions& options, Storage& storage)
    : file_(file), config_(config), hadamard_(std::move(hadamard)), ctx_(ctx), options_(options), out_(storage) {
  for (const gguf::Tensor& t : file.tensors()) bytes_total_ += t.data.size();
  if (options.in_memory) waiting_ = bytes_total_;
}

void Builder::fail(Error e) {
  if (ok_) error_ = std::move(e);
  ok_ = false;
}

const gguf::Tensor* Builder::find(const std::string& name, bool optional) {
  const gguf::Tensor* t = file_.tensor(name);
  if (!t && !optional) fail({Code::bad_file, fmt::format("tensor '{}' is missing", name)});
  if (t) used_.insert(name);
  return t;
}

static std::string shape_text(std::initializer_list<i64> dims) {
  std::vector<i64> d(dims);
  while (d.size() > 1 && d.back() == 1) d.pop_back();
  return fmt::format("{}", fmt::join(d, " x "));
}

static bool same_shape(const gguf::Tensor& t, std::initializer_list<i64> dims) {
  std::array<i64, 4> want{1, 1, 1, 1};
  std::copy(dims.begin(), dims.end(), want.begin());
  return t.dims == want;
}

bool Builder::check(const Want& w, const gguf::Tensor& t) {
  std::initializer_list<i64> dims = {w.n_in, w.source_rows ? w.source_rows : w.n_out, w.experts};
  if (!same_shape(t, dims)) {
    fail({Code::bad_file, fmt::format("tensor '{}': {} in the file, the model needs {}", t.name, t.shape(), shape_text(dims))});
  } else if (const FormatInfo* f = find_format(t.type); !f || !f->weights) {
    fail({Code::unsupported, fmt::format("tensor '{}': type {} cannot be multiplied", t.name, f ? f->name : "unknown")});
  } else if (t.type == Type::I2_S && (!w.rows.empty() || w.experts > 1)) {
    fail({Code::unsupported, fmt::format("tensor '{}': I2_S cannot hold rows in another order, nor experts", t.name)});
  }
  return ok_;
}

std::vector<f32> Builder::host_floats(const gguf::Tensor& t) {
  std::vector<f32> v(size_t(t.elements()));
  decode_tensor(t.type, t.data, v);
  return v;
}

static bool is_float(Type t) { return t == Type::F32 || t == Type::F16 || t == Type::BF16; }

// `X.scale`, `X.bias` of `X.weight`.
const std::vector<f32>* Builder::companion(const std::string& weight, std::string_view suffix, std::vector<i64> allowed) {
  constexpr std::string_view tail = ".weight";
  if (!weight.ends_with(tail)) return nullptr;
  std::string name = weight.substr(0, weight.size() - tail.size()) + std::string(suffix);
  const gguf::Tensor* t = find(name, true);
  if (!t) return nullptr;
  if (!is_float(t->type) || t->rows() != 1 || std::find(allowed.begin(), allowed.end(), t->dims[0]) == allowed.end()) {
    fail({Code::bad_file, fmt::format("tensor '{}': {} of {} in the file, the model needs {} floats", name, t->shape(),
                                      find_format(t->type) ? type_name(t->type) : "unknown type", fmt::join(allowed, " or "))});
    return nullptr;
  }
  return &out_.host_floats.emplace_back(host_floats(*t));
}

const f32* Builder::upload(std::span<const f32> values) {
  u64 n = u64(round_up(i64(values.size_bytes()), 256));
  if (n > slab_left_) {
    u64 size = std::max(n, slab_bytes);
    out_.footprint.other += size;
    slab_left_ = size;
    if (!options_.dry) {
      auto buffer = ctx_.device->allocate(size);
      if (!buffer.ok()) {
        fail(buffer.error());
        slab_left_ = 0;
        return nullptr;
      }
      slab_ = buffer->as<u8>();
      out_.buffers.push_back(std::move(*buffer));
    }
  }
  slab_left_ -= n;
  if (options_.dry) return nullptr;
  u8* at = slab_;
  slab_ += n;
  ctx_.device->upload(at, values.data(), values.size_bytes());
  return reinterpret_cast<const f32*>(at);
}

const Rotation* Builder::rotation(i64 width, bool permuted) {
  auto [it, fresh] = rotations_.try_emplace({width, permuted}, nullptr);
  if (!fresh) return it->second;
  const Hadamard& h = *hadamard_;
  Rotation r;
  r.block = options_.omit.transform ? 1 : h.block;
  if (auto s = h.signs.find(width); s != h.signs.end() && !options_.omit.signs) r.signs = upload(s->second);
  if (permuted && !options_.omit.permutation) {
    r.perm_k_heads = config_.delta.k_heads;
    r.perm_rep = config_.delta.v_heads / config_.delta.k_heads;
    r.perm_width = config_.delta.dim;
  }
  return it->second = &out_.rotations.emplace_back(r);
}

const Rotation* Builder::rotation_for(const std::string& name, i64 width) {
  if (!hadamard_ || !hadamard_->names.count(name) || name == options_.omit.plain) return nullptr;
  claimed_.insert(name);
  // DeltaNet's output is in tiled head order except in qwen3next, whose own order is the grouped one already.
  bool permuted = hadamard_->v_grouped && config_.arch->multi_axis && name.ends_with(".ssm_out.weight");
  return rotation(width, permuted);
}

std::span<const u8> Builder::reordered(const Want& w, const gguf::Tensor& t) {
  u64 row = row_bytes(t.type, w.n_in);
  if (options_.dry) return t.data.first(row * u64(w.n_out) * u64(w.experts));
  std::vector<u8>& copy = out_.copies.emplace_back(row * u64(w.n_out) * u64(w.experts));
  u8* to = copy.data();
  for (i64 e = 0; e < w.experts; e++)
    for (i64 r : w.rows) {
      std::memcpy(to, t.data.data() + u64(e * w.source_rows + r) * row, row);
      to += row;
    }
  return copy;
}

void Builder::count(const HostTensor& host, const kernel::PlaceOptions& place, u64 bytes, bool copied) {
  u64 packed = ctx_.k->placed_bytes(host, place);
  if (ctx_.device->kind() != DeviceKind::cpu) packed = u64(round_up(i64(packed), gpu_page));
  if (packed) {
    out_.footprint.packed += packed;
  } else {
    (copied ? out_.footprint.packed : out_.footprint.mapped) += bytes;
  }
}

// The pages of weights read in place are brought in now, in order, so that the plan holds and the first token does not wait for the disk;
// those of weights packed elsewhere are let go.
void Builder::settle(const gguf::Tensor& t, bool in_place) {
  if (!in_place) {
    file_.drop(t);
  } else {
    u8 sum = 0;
    for (size_t i = 0; i < t.data.size(); i += 4096) sum = u8(sum ^ *static_cast<const volatile u8*>(&t.data[i]));
  }
  bytes_done_ += t.data.size();
  if (options_.progress) options_.progress(std::min(1.0, f64(bytes_done_) / f64(std::max<u64>(bytes_total_, 1))));
}

void Builder::place(GroupUse use, std::vector<Want> wants) {
  if (options_.cancel && *options_.cancel) fail({Code::cancelled, "cancelled while loading"});
  if (!ok_) return;
  kernel::PlaceOptions how = options_.place;
  how.dense = out_.footprint.groups++ < options_.dense_groups;
  std::vector<HostTensor> hosts;
  std::vector<const gguf::Tensor*> tensors;
  std::vector<Want*> kept;
  size_t copies = out_.copies.size();
  for (Want& w : wants) {
    const gguf::Tensor* t = find(w.name, w.optional);
    if (!ok_ || (t && !check(w, *t))) return;
    if (!t) continue;
    HostTensor h;
    h.name = w.name;
    h.type = t->type;
    h.cols = w.n_in;
    h.rows = w.n_out;
    h.experts = w.experts;
    h.data = w.rows.empty() ? t->data : reordered(w, *t);
    const std::vector<f32>* scale = companion(w.name, ".scale", {1, w.experts});
    if (scale && i64(scale->size()) < w.experts) scale = &out_.host_floats.emplace_back(size_t(w.experts), scale->front());
    const std::vector<f32>* bias = w.experts == 1 ? companion(w.name, ".bias", {w.source_rows ? w.source_rows : w.n_out}) : nullptr;
    if (!ok_) return;
    if (bias && !w.rows.empty()) {
      std::vector<f32>& picked = out_.host_floats.emplace_back();
      for (i64 r : w.rows) picked.push_back((*bias)[size_t(r)]);
      bias = &picked;
    }
    h.scale = scale ? scale->data() : nullptr;
    h.bias = bias ? bias->data() : nullptr;
    count(h, how, h.data.size(), !w.rows.empty());
    hosts.push_back(std::move(h));
    tensors.push_back(t);
    kept.push_back(&w);
  }
  // The sources of this group are in memory beside what is made of them.
  Footprint& f = out_.footprint;
  u64 sources = 0, in_place = 0;
  for (size_t i = 0; i < hosts.size(); i++) {
    sources += tensors[i]->data.size();
    if (kept[i]->rows.empty() && ctx_.k->placed_bytes(hosts[i], how) == 0) in_place += tensors[i]->data.size();
  }
  // A device of its own memory holds a piece of them at a time.
  u64 beside = ctx_.device->kind() != DeviceKind::cpu ? std::min(sources, staging_bytes) : options_.in_memory ? waiting_ : sources;
  f.peak = std::max(f.peak, f.mapped + f.packed + f.other + beside - in_place);
  if (options_.in_memory) waiting_ -= std::min(waiting_, sources);
  std::vector<Weight> weights;
  if (options_.dry) {
    for (const HostTensor& h : hosts) {
      Weight w;
      w.name = h.name;
      w.type = h.type;
      w.act = ctx_.k->act_layout(h);
      w.cols = h.cols;
      w.rows = h.rows;
      w.experts = h.experts;
      w.bytes = h.data.size();
      weights.push_back(std::move(w));
    }
  } else if (!hosts.empty()) {
    auto placed = ctx_.k->place(ctx_, hosts, use, how, out_.buffers);
    if (!placed.ok()) return fail(placed.error());
    weights = std::move(*placed);
    FEWBIT_CHECK(weights.size() == hosts.size());
  }
  bool copy_read_in_place = false;
  for (size_t i = 0; i < weights.size(); i++) {
    Weight& w = weights[i];
    if (options_.act_int8 && w.name.starts_with("blk.")) w.act = kernel::ActLayout::token8;
    Linear& to = *kept[i]->to;
    to.present_ = true;
    to.rotation_ = rotation_for(w.name, w.cols);
    bool in_place = ctx_.k->placed_bytes(hosts[i], how) == 0, copied = !kept[i]->rows.empty();
    copy_read_in_place |= copied && in_place;
    if (!options_.dry) settle(*tensors[i], in_place && !copied);
    out_.weights.push_back(w);
    to.w_ = std::move(w);
  }
  if (!copy_read_in_place) out_.copies.resize(copies);
}

void Builder::place_embedding(Linear& embed, Linear& head) {
  bool tied = !has("output.weight");
  place(GroupUse::table, {{&embed, "token_embd.weight", config_.n_embd, config_.n_vocab}});
  if (tied) {
    head = embed;
  } else {
    place({&head, "output.weight", config_.n_embd, config_.n_vocab});
  }
  if (!ok_ || !hadamard_ || !hadamard_->embedding) return;
  const Rotation* r = rotation(config_.n_embd, false);
  if (!options_.omit.inverse) embed.rotation_ = r;
  if (hadamard_->tied) head.rotation_ = r;
}

const f32* Builder::floats(const std::string& name, std::initializer_list<i64> dims, bool optional) {
  if (!ok_) return nullptr;
  const gguf::Tensor* t = find(name, optional);
  if (!t) return nullptr;
  if (!same_shape(*t, dims)) {
    fail({Code::bad_file, fmt::format("tensor '{}': {} in the file, the model needs {}", name, t->shape(), shape_text(dims))});
    return nullptr;
  }
  if (!is_float(t->type)) {
    fail({Code::bad_file, fmt::format("tensor '{}': type {} in the file, the model needs floats", name,
                                      find_format(t->type) ? type_name(t->type) : "unknown")});
    return nullptr;
  }
  return upload(host_floats(*t));
}

const f32* Builder::rope_table() {
  if (!ok_) return nullptr;
  std::vector<f32> freqs;
  if (const gguf::Tensor* t = find("rope_freqs.weight", true)) {
    if (!is_float(t->type) || !same_shape(*t, {config_.rope.n_rot / 2})) {
      fail({Code::bad_file,
            fmt::format("tensor 'rope_freqs.weight': {} in the file, the model needs {} floats", t->shape(), config_.rope.n_rot / 2)});
      return nullptr;
    }
    freqs = host_floats(*t);
    for (f32 f : freqs)
      if (!(f > 0)) {
        fail({Code::bad_file, fmt::format("tensor 'rope_freqs.weight': holds {}, must be positive", f)});
        return nullptr;
      }
  }
  u64 row = u64(config_.rope.n_rot) * sizeof(f32);
  out_.footprint.other += row * u64(options_.positions);
  if (options_.dry) return nullptr;
  auto buffer = ctx_.device->allocate(std::max<u64>(256, row * u64(options_.positions)));
  if (!buffer.ok()) {
    fail(buffer.error());
    return nullptr;
  }
  constexpr int piece = 4096;  // positions made at a time: the plan has no room for a second table
  for (int p = 0; p < options_.positions; p += piece) {
    std::vector<f32> part = model::rope_table(config_.rope, freqs, p, std::min(piece, options_.positions - p));
    ctx_.device->upload(buffer->as<u8>() + u64(p) * row, part.data(), part.size() * sizeof(f32));
  }
  out_.buffers.push_back(std::move(*buffer));
  return out_.buffers.back().as<f32>();
}

void Builder::require_same_input(const Linear& a, const Linear& b) {
  if (!ok_ || (a.w_.act == b.w_.act && a.rotation_ == b.rotation_)) return;
  fail({Code::unsupported, fmt::format("'{}' ({}) and '{}' ({}) need different inputs; as a pair of experts that is not supported",
                                       a.name(), type_name(a.w_.type), b.name(), type_name(b.w_.type))});
}

Status Builder::finish() {
  if (!ok_) return error_;
  auto block_of = [](std::string_view name) {
    int n = -1;
    if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), n);
    return n;
  };
  if (hadamard_ && !options_.omit.force)
    for (const std::string& n : hadamard_->names)
      if (!claimed_.count(n) && block_of(n) < config_.n_layers)
        return Error{Code::bad_file,
                     fmt::format("prism.hadamard.weight_names: '{}' is listed, but nothing multiplies a rotated input by it", n)};
  if (options_.dry) return {};
  size_t mtp = 0, vision = 0, unknown = 0;
  std::string first;
  for (const gguf::Tensor& t : file_.tensors()) {
    if (used_.count(t.name)) continue;
    if (block_of(t.name) >= config_.n_layers) {
      mtp++;
    } else if (t.name.starts_with("v.") || t.name.starts_with("mm.")) {
      vision++;
    } else if (!unknown++) {
      first = t.name;
    }
  }
  if (mtp) log::info("{}: {} tensors of {} multi-token-prediction blocks are not used", file_.path(), mtp, config_.n_mtp);
  if (vision) log::warn("{}: {} tensors of the vision part are not used; fewbit reads text", file_.path(), vision);
  if (unknown)
    log::warn("{}: {} tensors are not used by architecture {}, the first is '{}'", file_.path(), unknown, config_.architecture, first);
  return {};
}

}  // namespace fewbit::model
