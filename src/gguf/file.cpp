// Opening files: one piece, or the pieces of a split set (gguf.md section 5).
#include <algorithm>

#include "gguf/reader.h"
#include "gguf/serialize.h"

namespace fewbit::gguf {

Result<Reader::Split> Reader::split() const {
  // The reference reads these keys with exactly these types; another width is a broken or hostile file.
  auto key = [&](std::string_view k, ValueType type, i64 absent) -> Result<i64> {
    const Value* v = file.find(k);
    if (!v) return absent;
    if (v->type != type) return c.fail(key_at(k), "key '{}' is of type {}, expected {}", k, v->type_text(), value_type_name(type));
    return *v->as_int();
  };
  FEWBIT_TRY(i64 count, key("split.count", ValueType::u16, 1));
  FEWBIT_TRY(i64 no, key("split.no", ValueType::u16, -1));
  FEWBIT_TRY(i64 tensors, key("split.tensors.count", ValueType::i32, -1));
  if (count <= 1) return Split{};
  if (count > i64(max_pieces)) return c.fail(key_at("split.count"), "split.count is {}, at most {} are accepted", count, max_pieces);
  if (no < 0) return c.fail(key_at("split.count"), "split.count is {}, but split.no is missing", count);
  if (no >= count) return c.fail(key_at("split.no"), "split.no is {}, split.count is {}", no, count);
  if (tensors < 0) {
    return c.fail(key_at("split.tensors.count"), "split.tensors.count is {}", file.find("split.tensors.count") ? "negative" : "missing");
  }
  return Split{int(no), int(count), tensors};
}

std::string piece_path(std::string_view prefix, int no, int count) { return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, no + 1, count); }

Status Reader::append(Reader& piece) {
  for (Tensor& t : piece.file.tensors_) {
    if (file.tensor_index_.contains(t.name)) {
      return piece.c.fail(piece.infos_[size_t(&t - piece.file.tensors_.data())].at, "tensor '{}' appears twice, first in piece {}",
                          printable(t.name), file.tensor(t.name)->piece + 1);
    }
    file.tensor_index_.emplace(t.name, file.tensors_.size());
    file.tensors_.push_back(std::move(t));
  }
  file.file_bytes_ += piece.file.file_bytes_;
  file.early_q2_0_ |= piece.file.early_q2_0_;
  return {};
}

Result<File> File::parse(std::span<const u8> bytes, const std::string& name, const OpenOptions& options) {
  Reader reader(bytes, name, options);
  FEWBIT_OK(reader.read(0));
  FEWBIT_TRY(Reader::Split split, reader.split());
  if (split.count > 1) {
    return reader.c.fail(reader.key_at("split.count"), "piece {} of {}: a split set is opened by its files' names", split.no + 1,
                         split.count);
  }
  return std::move(reader.file);
}

Result<File> File::assemble(const std::string& name, std::vector<KeyValue> metadata, const std::vector<TensorInfo>& tensors,
                            const Fill& fill) {
  FEWBIT_TRY(Layout layout, serialize(metadata, tensors, 0));
  File f;
  f.path_ = name;
  f.alignment_ = layout.alignment;
  f.file_bytes_ = layout.file_bytes;
  f.metadata_ = std::move(metadata);
  for (size_t i = 0; i < f.metadata_.size(); i++) f.key_index_.emplace(f.metadata_[i].key, i);
  std::vector<std::span<u8>> memory;
  for (size_t i = 0; i < tensors.size(); i++) {
    FEWBIT_TRY(Mapping m, Mapping::anonymous(layout.sizes[i]));
    memory.push_back(m.writable());
    Tensor t;
    t.name = tensors[i].name;
    t.type = tensors[i].type;
    t.n_dims = int(tensors[i].dims.size());
    std::copy(tensors[i].dims.begin(), tensors[i].dims.end(), t.dims.begin());
    t.piece = int(i);  // the mapping it lies in
    t.data = m.bytes();
    f.tensor_index_.emplace(t.name, i);
    f.tensors_.push_back(std::move(t));
    f.mappings_.push_back(std::make_shared<Mapping>(std::move(m)));
  }
  fill(memory);
  return f;
}

Result<File> File::open(const std::string& path, const OpenOptions& options) {
  const auto mode = options.copy ? Mapping::Mode::read : Mapping::Mode::map;
  FEWBIT_TRY(Mapping first, Mapping::open(path, mode));
  std::vector<std::shared_ptr<Mapping>> mappings{std::make_shared<Mapping>(std::move(first))};
  Reader reader(mappings[0]->bytes(), path, options);
  FEWBIT_OK(reader.read(0));
  FEWBIT_TRY(Reader::Split split, reader.split());
  if (split.count > 1) {
    // Only the pattern of the name we were given, never a path from a file.
    const std::string suffix = piece_path("", split.no, split.count);
    if (!path.ends_with(suffix)) {
      return reader.c.fail(reader.key_at("split.count"), "piece {} of {}, but the file's name does not end in '{}'", split.no + 1,
                           split.count, suffix);
    }
    const std::string prefix = path.substr(0, path.size() - suffix.size());
    if (split.no != 0) {
      return reader.c.fail(reader.key_at("split.no"), "piece {} of {}: open the first one, '{}'", split.no + 1, split.count,
                           piece_path(prefix, 0, split.count));
    }
    for (int i = 1; i < split.count; i++) {
      const std::string name = piece_path(prefix, i, split.count);
      auto mapping = Mapping::open(name, mode);
      if (!mapping.ok()) {
        return Error{mapping.error().code, fmt::format("{}: piece {} of {} is needed: {}", path, i + 1, split.count, mapping.error().what)};
      }
      mappings.push_back(std::make_shared<Mapping>(std::move(*mapping)));
      Reader piece(mappings.back()->bytes(), name, options);
      FEWBIT_OK(piece.read(i));
      FEWBIT_TRY(Reader::Split own, piece.split());
      if (own.count != split.count) {
        return piece.c.fail(piece.key_at("split.count"), "split.count is {}, in the first piece {}", own.count, split.count);
      }
      if (own.no != i) return piece.c.fail(piece.key_at("split.no"), "split.no is {}, expected {}", own.no, i);
      FEWBIT_OK(reader.append(piece));
    }
    if (i64(reader.file.tensors_.size()) != split.tensors) {
      return reader.c.fail(reader.key_at("split.tensors.count"), "split.tensors.count is {}, the {} pieces have {} tensors", split.tensors,
                           split.count, reader.file.tensors_.size());
    }
    FEWBIT_OK(reader.check_ids());
  }
  reader.file.pieces_ = split.count;
  reader.file.mappings_ = std::move(mappings);
  return std::move(reader.file);
}

}  // namespace fewbit::gguf
