#include "base/mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace fewbit {

static Error io_error(const std::string& path, const char* what) {
  return {errno == ENOENT ? Code::not_found : Code::io, fmt::format("{}: {}: {}", path, what, std::strerror(errno))};
}

// The mapped files of this process, by device and inode; one that is mapped twice stands here twice.
static std::mutex shown_mutex;
static std::vector<std::pair<u64, u64>>& shown() {
  static auto* list = new std::vector<std::pair<u64, u64>>;  // outlives every Mapping
  return *list;
}

static bool read_all(int fd, u8* to, size_t n) {
  while (n > 0) {
    ssize_t got = ::read(fd, to, n);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    n -= size_t(got);
  }
  return true;
}

Result<Mapping> Mapping::open(const std::string& path, Mode mode) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe without a writer would wait
  if (fd < 0) return io_error(path, "cannot open");
  struct stat st;
  if (::fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    ::close(fd);
    return Error{Code::io, fmt::format("{}: not a regular file", path)};
  }
  Mapping m;
  m.size_ = size_t(st.st_size);
  if (m.size_ > 0) {
    if (mode == Mode::map) {
      void* p = ::mmap(nullptr, m.size_, PROT_READ, MAP_SHARED, fd, 0);
      if (p == MAP_FAILED) {
        Error e = io_error(path, "cannot map");
        ::close(fd);
        m.size_ = 0;
        return e;
      }
      m.data_ = static_cast<const u8*>(p);
      m.mapped_ = true;
      m.device_ = u64(st.st_dev);
      m.inode_ = u64(st.st_ino);
      const std::lock_guard lock(shown_mutex);
      shown().emplace_back(m.device_, m.inode_);
    } else {
      u8* p = new (std::nothrow) u8[m.size_];
      if (!p || !read_all(fd, p, m.size_)) {
        delete[] p;
        ::close(fd);
        m.size_ = 0;
        return Error{Code::io, fmt::format("{}: cannot read {} bytes", path, st.st_size)};
      }
      m.data_ = p;
    }
  }
  ::close(fd);
  return m;
}

Result<Mapping> Mapping::anonymous(size_t n) {
  Mapping m;
  if (n == 0) return m;
  void* p = ::mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return Error{Code::out_of_memory, fmt::format("cannot get {} bytes of memory: {}", n, std::strerror(errno))};
#ifdef MADV_HUGEPAGE
  ::madvise(p, n, MADV_HUGEPAGE);  // fewer page faults while it is filled; a refusal does no harm
#endif
  m.data_ = static_cast<const u8*>(p);
  m.size_ = n;
  m.mapped_ = m.anonymous_ = true;
  return m;
}

Mapping& Mapping::operator=(Mapping&& o) noexcept {
  std::swap(data_, o.data_);
  std::swap(size_, o.size_);
  std::swap(mapped_, o.mapped_);
  std::swap(anonymous_, o.anonymous_);
  std::swap(device_, o.device_);
  std::swap(inode_, o.inode_);
  return *this;
}

Mapping::~Mapping() {
  if (mapped_) {
    ::munmap(const_cast<u8*>(data_), size_);
    if (anonymous_) return;
    const std::lock_guard lock(shown_mutex);
    if (auto it = std::find(shown().begin(), shown().end(), std::pair(device_, inode_)); it != shown().end()) shown().erase(it);
  } else {
    delete[] data_;
  }
}

bool Mapping::shows(const std::string& path) {
  struct stat st;
  if (::stat(path.c_str(), &st) != 0) return false;
  const std::lock_guard lock(shown_mutex);
  return std::find(shown().begin(), shown().end(), std::pair(u64(st.st_dev), u64(st.st_ino))) != shown().end();
}

void Mapping::drop(size_t offset, size_t n) const {
  if (!mapped_) return;
  const size_t page = size_t(::sysconf(_SC_PAGESIZE));
  size_t first = (offset + page - 1) / page * page, last = (offset + n) / page * page;
  if (last > first) ::madvise(const_cast<u8*>(data_) + first, last - first, MADV_DONTNEED);
}

}  // namespace fewbit
