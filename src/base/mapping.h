// A file mapped read-only into memory.  Move-only; unmapped on destruction.
// The length is that at open; a file that another process cuts short afterwards raises SIGBUS on access, so untrusted files
// that may change are better read: open(path, Mode::read) copies instead.  anonymous() is memory that belongs to no file.
#pragma once
#include <span>
#include <string>

#include "base/result.h"
#include "base/types.h"

namespace fewbit {

class Mapping {
 public:
  enum class Mode { map, read };
  static Result<Mapping> open(const std::string& path, Mode mode = Mode::map);
  // n zero bytes, whole pages that drop() gives back (they then read as zeros again); writable() is for filling them.
  static Result<Mapping> anonymous(size_t n);

  Mapping() = default;
  Mapping(Mapping&& o) noexcept { *this = std::move(o); }
  Mapping& operator=(Mapping&& o) noexcept;
  ~Mapping();

  std::span<const u8> bytes() const { return {data_, size_}; }
  std::span<u8> writable() { return anonymous_ ? std::span<u8>(const_cast<u8*>(data_), size_) : std::span<u8>(); }
  // Tells the kernel that these bytes are no longer needed here (after they were packed elsewhere).
  void drop(size_t offset, size_t n) const;
  // Whether a Mapping of this process shows the file that lies at `path`: it must not be replaced meanwhile.
  static bool shows(const std::string& path);

 private:
  const u8* data_ = nullptr;
  size_t size_ = 0;
  bool mapped_ = false, anonymous_ = false;
  u64 device_ = 0, inode_ = 0;  // of a mapped file
};

}  // namespace fewbit
