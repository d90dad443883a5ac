#include <optional>

#include "base/new_file.h"
#include "gguf/cursor.h"
#include "gguf/serialize.h"

namespace fewbit::gguf {

struct Writer::State {
  std::string path;
  std::optional<NewFile> file;
  std::vector<TensorInfo> tensors;
  Layout layout;
  size_t tensor = 0;  // the one being written
  u64 in_tensor = 0;  // bytes of it that have arrived

  Status open() {
    FEWBIT_TRY(file, NewFile::create(path));
    return file->reserve(layout.file_bytes);  // a full disk is better noticed now than after an hour
  }

  bool complete() const { return tensor == tensors.size(); }
  const std::string& current() const { return tensors[tensor].name; }

  Status write(std::span<const u8> b) {
    if (complete()) return Error{Code::invalid_argument, fmt::format("{}: {} bytes more than all tensors take", path, b.size())};
    const u64 left = layout.sizes[tensor] - in_tensor;
    if (b.size() > left) {
      return Error{Code::invalid_argument, fmt::format("{}: tensor '{}' takes {} bytes, {} more were given", path, printable(current()),
                                                       layout.sizes[tensor], b.size() - left)};
    }
    FEWBIT_OK(file->write(b));
    in_tensor += b.size();
    if (in_tensor == layout.sizes[tensor]) {
      static constexpr u8 zeros[65536] = {};
      const u64 next = tensor + 1 < tensors.size() ? layout.offsets[tensor + 1] : layout.file_bytes - layout.head.size();
      FEWBIT_OK(file->write({zeros, size_t(next - layout.offsets[tensor] - in_tensor)}));
      tensor++;
      in_tensor = 0;
    }
    return {};
  }

  // Everything on the disk, still without its name.
  Status close() {
    if (!complete()) {
      return Error{Code::invalid_argument,
                   fmt::format("{}: tensor '{}' has {} of {} bytes", path, printable(current()), in_tensor, layout.sizes[tensor])};
    }
    return file->close();
  }
  Status publish() { return file->publish(); }
};

Writer::Writer() = default;
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;
Writer::~Writer() = default;

Result<Writer> Writer::create(const std::string& path, const std::vector<KeyValue>& metadata, const std::vector<TensorInfo>& tensors,
                              u64 alignment) {
  auto layout = serialize(metadata, tensors, alignment);
  if (!layout.ok()) return Error{layout.error().code, fmt::format("{}: {}", path, layout.error().what)};
  Writer w;
  w.s_ = std::make_unique<State>();
  w.s_->path = path;
  w.s_->tensors = tensors;
  w.s_->layout = std::move(*layout);
  FEWBIT_OK(w.s_->open());
  FEWBIT_OK(w.s_->file->write(w.s_->layout.head));
  return w;
}

Status Writer::write(std::span<const u8> bytes) { return s_->write(bytes); }

Status Writer::finish() {
  FEWBIT_OK(s_->close());
  return s_->publish();
}

u64 Writer::file_bytes() const { return s_->layout.file_bytes; }

Result<SplitWriter> SplitWriter::create(const std::string& prefix, const std::vector<KeyValue>& metadata,
                                        const std::vector<Writer::TensorInfo>& tensors, u64 max_bytes, u64 alignment) {
  FEWBIT_TRY(Layout whole, serialize(metadata, tensors, alignment));
  // Consecutive tensors, as many as fit; one that is larger than a piece gets a piece of its own.
  std::vector<std::vector<Writer::TensorInfo>> pieces(1);
  u64 bytes = 0;
  for (size_t i = 0; i < tensors.size(); i++) {
    const u64 padded = (whole.sizes[i] + whole.alignment - 1) & ~(whole.alignment - 1);
    if (!pieces.back().empty() && bytes + padded > max_bytes) {
      pieces.emplace_back();
      bytes = 0;
    }
    pieces.back().push_back(tensors[i]);
    bytes += padded;
  }
  if (pieces.size() > 1024) {
    return Error{Code::invalid_argument, fmt::format("{}: {} pieces of {} bytes, at most 1024", prefix, pieces.size(), max_bytes)};
  }
  SplitWriter out;
  for (size_t p = 0; p < pieces.size(); p++) {
    std::vector<KeyValue> keys;
    for (const KeyValue& kv : metadata) {
      if (p == 0 && !kv.key.starts_with("split.")) keys.push_back(kv);
    }
    if (p > 0 && whole.alignment != 32) keys.push_back({"general.alignment", Value::of(u32(whole.alignment))});
    keys.push_back({"split.no", {ValueType::u16, ValueType::u32, u64(p)}});
    keys.push_back({"split.count", {ValueType::u16, ValueType::u32, u64(pieces.size())}});
    keys.push_back({"split.tensors.count", {ValueType::i32, ValueType::u32, i64(tensors.size())}});
    FEWBIT_TRY(Writer w, Writer::create(piece_path(prefix, int(p), int(pieces.size())), keys, pieces[p], whole.alignment));
    out.pieces_.push_back(std::move(w));
  }
  return out;
}

Status SplitWriter::write(std::span<const u8> bytes) {
  while (at_ + 1 < pieces_.size() && pieces_[at_].s_->complete()) at_++;
  return pieces_[at_].write(bytes);
}

Status SplitWriter::finish() {
  for (Writer& w : pieces_) FEWBIT_OK(w.s_->close());
  // The first piece last: without it nobody opens the others.
  for (size_t i = pieces_.size(); i-- > 0;) FEWBIT_OK(pieces_[i].s_->publish());
  return {};
}

}  // namespace fewbit::gguf
