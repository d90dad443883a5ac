// Tensor infos of one piece and the layout of its data section.  Numbers in comments: the checks of gguf.md section 3.
#include <algorithm>
#include <limits>

#include "gguf/reader.h"

namespace fewbit::gguf {

static constexpr u32 q2_0_id = u32(Type::Q2_0);

Status Reader::tensor_infos() {
  for (u64 i = 0; i < n_tensors_; i++) FEWBIT_OK(tensor_info());
  return check_ids();
}

Status Reader::tensor_info() {
  Tensor t;
  Info info{};
  info.at = c.at();
  {  // 11
    FEWBIT_TRY(std::string_view s,
               c.string([&] { return fmt::format("name of tensor {} of {}", infos_.size(), n_tensors_); }, bytes.size()));
    if (s.empty() || s.size() > max_name_length) {
      return c.fail(info.at, "tensor {} of {}: name of {} bytes ('{}'), expected 1 to {}", infos_.size(), n_tensors_, s.size(),
                    printable(s), max_name_length);
    }
    if (s.find('\0') != s.npos) return c.fail(info.at, "tensor name '{}' has a zero byte", printable(s));
    t.name = s;
  }
  auto what = [&](const char* part) { return [&t, part] { return fmt::format("{} of tensor '{}'", part, printable(t.name)); }; };
  if (file.tensor_index_.contains(t.name)) return c.fail(info.at, "tensor '{}' appears twice", printable(t.name));

  const u64 dims_at = c.at();  // 12, 13
  FEWBIT_TRY(u32 n_dims, c.number<u32>(what("dimension count")));
  if (n_dims > 4) return c.fail(dims_at, "tensor '{}': {} dimensions, at most 4 are read", printable(t.name), n_dims);
  t.n_dims = int(n_dims);
  u64 rows = 1, elements = 1;
  for (u32 d = 0; d < n_dims; d++) {
    const u64 at = c.at();
    FEWBIT_TRY(u64 ne, c.number<u64>(what("a dimension")));
    if (ne == 0 || ne > u64(std::numeric_limits<i64>::max())) {
      return c.fail(at, "tensor '{}': dimension {} is {}", printable(t.name), d, i64(ne));
    }
    t.dims[d] = i64(ne);
    auto product = checked_mul(elements, ne);
    if (!product || *product > u64(std::numeric_limits<i64>::max())) {
      return c.fail(at, "tensor '{}': the product of dimensions 0 to {} exceeds 2^63-1", printable(t.name), d);
    }
    elements = *product;
    if (d > 0) rows *= ne;  // at most `elements`
  }

  const u64 type_at = c.at();  // 14
  FEWBIT_TRY(info.id, c.number<u32>(what("type")));
  const FormatInfo* format = info.id <= 0xffff ? find_format(Type(info.id)) : nullptr;
  if (!format) {
    return c.fail(type_at, "tensor '{}': type id {} is not read ({})", printable(t.name), info.id, foreign_type_name(info.id));
  }
  t.type = Type(info.id);
  const u64 n0 = u64(t.dims[0]);  // 15, 16
  if (t.type == Type::I2_S ? elements % 128 != 0 : n0 % u64(format->block) != 0) {
    return c.fail(info.at, "tensor '{}': {} of {}, not a multiple of {}'s block of {}", printable(t.name),
                  t.type == Type::I2_S ? "element count" : "row", t.type == Type::I2_S ? elements : n0, format->name,
                  t.type == Type::I2_S ? 128 : format->block);
  }
  std::optional<u64> size = tensor_bytes(t.type, n0, rows);
  if (!size || *size > u64(std::numeric_limits<i64>::max())) {
    return c.fail(info.at, "tensor '{}' ({}, {}): its size cannot be computed", printable(t.name), t.shape(), format->name);
  }
  info.size = *size;

  info.offset_at = c.at();  // 17
  FEWBIT_TRY(info.offset, c.number<u64>(what("offset")));
  if (info.offset % file.alignment_ != 0) {
    return c.fail(info.offset_at, "tensor '{}': offset {} is not a multiple of the alignment {}", printable(t.name), info.offset,
                  file.alignment_);
  }
  file.tensor_index_.emplace(t.name, file.tensors_.size());
  file.tensors_.push_back(std::move(t));
  infos_.push_back(info);
  return {};
}

// BitNet's own tools number TL2 39, everybody else MXFP4 (formats.md section 2).
Status Reader::check_ids() const {
  const Value* type = file.find("general.file_type");
  if (!type || type->as_int() != 40) return {};
  auto is = [](Type id) { return [id](const Tensor& t) { return t.type == id; }; };
  if (std::none_of(file.tensors_.begin(), file.tensors_.end(), is(Type::I2_S))) return {};
  auto tl2 = std::find_if(file.tensors_.begin(), file.tensors_.end(), is(Type::MXFP4));
  if (tl2 == file.tensors_.end()) return {};
  const size_t i = size_t(tl2 - file.tensors_.begin());
  return c.fail(i < infos_.size() ? infos_[i].at : 0,
                "tensor '{}': type id 39 in a BitNet file (file_type 40, I2_S) is TL2, which is not read", printable(tl2->name));
}

u64 Reader::size_of(size_t i, bool legacy) const {
  const Tensor& t = file.tensors_[i];
  // PrismML's early writer: groups of 128 in 34 bytes, but only where they divide the row.  Always fits: 34 / 128 < 18 / 64.
  if (legacy && infos_[i].id == q2_0_id && t.dims[0] % 128 == 0) return u64(t.elements()) / 128 * 34;
  return infos_[i].size;
}

Reader::Walk Reader::walk(u64 data_bytes, bool legacy) const {  // 18
  Walk w;
  u64 sum = 0;
  for (size_t i = 0; i < infos_.size(); i++) {
    w.mismatch = i;
    w.expected = sum;
    if (infos_[i].offset != sum) return w;
    auto end = checked_add(sum, size_of(i, legacy));
    auto padded = end ? checked_add(*end, file.alignment_ - 1) : std::nullopt;
    if (!padded) {
      w.overflow = true;
      return w;
    }
    w.end = *end;
    sum = *padded & ~(file.alignment_ - 1);
    if (w.end > data_bytes) return w;  // nothing later can be right, and the sums stay small
  }
  w.mismatch = infos_.size();
  return w;
}

// Does the early layout explain what today's cannot?  Either the offset of a tensor after a Q2_0 one says so, or, where no such tensor
// follows, the length of the file: too short for today's layout, enough for the early one.
bool Reader::is_legacy(const Walk& current, u64 data_bytes) const {
  const size_t k = current.mismatch, n = infos_.size();
  const Walk legacy = walk(data_bytes, true);
  auto offset_fits = [&](const Walk& w) { return w.mismatch == n || infos_[w.mismatch].offset == w.expected; };
  if (offset_fits(current)) return legacy.mismatch > k && offset_fits(legacy);
  return legacy.mismatch > k || (legacy.mismatch == k && offset_fits(legacy));
}

Error Reader::legacy_error(size_t i) const {
  return c.fail(infos_[i].offset_at,
                "tensor '{}' lies where Q2_0 (id 42) in PrismML's early layout, groups of 128, would put it; that file reads as garbage in "
                "today's groups of 64 (unless the file was cut short): fetch its PQ2_0 or group-64 version, or ask for the legacy layout "
                "(--q2-0-legacy)",
                printable(file.tensors_[i].name));
}

Status Reader::layout_error(const Walk& w, u64 data_bytes, bool legacy) const {
  if (w.mismatch == infos_.size()) return {};
  const size_t i = w.mismatch;
  const Tensor& t = file.tensors_[i];
  const Info& info = infos_[i];
  const std::string_view format = legacy && info.id == q2_0_id ? "Q2_0 in groups of 128" : format_info(t.type).name;
  if (info.offset == w.expected) {
    return c.fail(info.at, "tensor '{}' ({}, {}): {} bytes at offset {}, the data section has {}", printable(t.name), t.shape(), format,
                  size_of(i, legacy), info.offset, data_bytes);
  }
  std::string hint;
  for (size_t k = 0; k < i; k++) {  // 21
    if (file.tensors_[k].type == Type::PQ2_0 || file.tensors_[k].type == Type::PTQ1_0) {
      hint = fmt::format("; ids 142 and 143 were IQ2_TN and IQ1_TN in old ik_llama.cpp files, this may be one (tensor '{}')",
                         printable(file.tensors_[k].name));
      break;
    }
  }
  return c.fail(info.offset_at, "tensor '{}': offset {}, expected {}, the sum of the padded sizes before it ({}){}", printable(t.name),
                info.offset, w.expected, info.offset < w.expected ? "overlap" : "gap", hint);
}

Status Reader::layout() {  // 16, 17, 18, 20
  if (infos_.empty()) return {};
  const u64 data_start = (c.at() + file.alignment_ - 1) / file.alignment_ * file.alignment_;
  if (data_start > bytes.size()) {
    return c.fail(c.at(), "the data section would start at byte {}, the file has {} bytes", data_start, bytes.size());
  }
  const u64 data_bytes = bytes.size() - data_start;
  const size_t n = infos_.size();

  const auto q2 = std::find_if(infos_.begin(), infos_.end(), [](const Info& i) { return i.id == q2_0_id; });
  const Walk current = walk(data_bytes, false);
  if (q2 == infos_.end()) {
    FEWBIT_OK(layout_error(current, data_bytes, false));
  } else if (!options.q2_0_legacy) {
    if (current.mismatch < n) {
      if (is_legacy(current, data_bytes)) return legacy_error(current.mismatch);
      FEWBIT_OK(layout_error(current, data_bytes, false));
    }
  } else {
    const Walk legacy = walk(data_bytes, true);
    if (legacy.mismatch < n) {
      if (current.mismatch == n) {
        return c.fail(infos_[legacy.mismatch].offset_at, "Q2_0 in groups of 128 was asked for, but the offsets are those of groups of 64");
      }
      FEWBIT_OK(layout_error(legacy, data_bytes, true));
    }
    if (current.mismatch == n && current.end > (legacy.end + file.alignment_ - 1) / file.alignment_ * file.alignment_) {
      return c.fail(q2->at, "Q2_0 in groups of 128 was asked for, but the data section of {} bytes is that of groups of 64", data_bytes);
    }
    for (size_t i = 0; i < n; i++) {
      if (infos_[i].id != q2_0_id || file.tensors_[i].dims[0] % 128 != 0) continue;
      file.tensors_[i].type = Type::PQ2_0;
      file.early_q2_0_ = true;
    }
  }
  const bool legacy = options.q2_0_legacy && q2 != infos_.end();
  for (size_t i = 0; i < n; i++) {
    Tensor& t = file.tensors_[i];
    t.offset = data_start + infos_[i].offset;
    t.data = bytes.subspan(t.offset, size_of(i, legacy));
  }
  return {};
}

Status Reader::check_data() const {  // 23
  for (const Tensor& t : file.tensors_) {
    if (Status s = check_blocks(t.type, t.data); !s.ok()) {
      return c.fail(t.offset, "tensor '{}' ({}): {}", printable(t.name), type_name(t.type), s.error().what);
    }
  }
  return {};
}

}  // namespace fewbit::gguf
