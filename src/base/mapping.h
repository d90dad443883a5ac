// A file mapped read-only into memory.  Move-only; unmapped on destruction.
// The length is that at open; a file that another process cuts short afterwards raises SIGBUS on access, so untrusted files
// that may change are better read: open(path, Mode::read) copies instead.
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

  Mapping() = default;
  Mapping(Mapping&& o) noexcept { *this = std::move(o); }
  Mapping& operator=(Mapping&& o) noexcept;
  ~Mapping();

  std::span<const u8> bytes() const { return {data_, size_}; }
  // Tells the kernel that these bytes are no longer needed here (after they were packed elsewhere).
  void drop(size_t offset, size_t n) const;

 private:
  const u8* data_ = nullptr;
  size_t size_ = 0;
  bool mapped_ = false;
};

}  // namespace fewbit
