#include "base/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/mapping.h"

namespace fewbit {
namespace {

constexpr size_t hold = size_t(1) << 20;

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string part_name(const std::string& path, int i) { return fmt::format("{}.{}-{}.part", path, ::getpid(), i); }

}  // namespace

NewFile& NewFile::operator=(NewFile&& o) noexcept {
  std::swap(path_, o.path_);
  std::swap(target_, o.target_);
  std::swap(temporary_, o.temporary_);
  std::swap(fd_, o.fd_);
  std::swap(direct_, o.direct_);
  std::swap(failed_, o.failed_);
  std::swap(closed_, o.closed_);
  std::swap(held_, o.held_);
  return *this;
}

NewFile::~NewFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Error NewFile::io(const char* what) {
  failed_ = true;
  return {Code::io, fmt::format("{}: {}: {}", path_, what, std::strerror(errno))};
}

Result<NewFile> NewFile::create(const std::string& path) {
  if (Mapping::shows(path)) return Error{Code::invalid_argument, fmt::format("{}: would replace an input", path)};
  NewFile f;
  f.path_ = path;
  std::error_code ec;
  const std::filesystem::path real = std::filesystem::canonical(path, ec);  // fails where there is nothing yet
  f.target_ = ec ? path : real.string();
  struct stat st;
  if (::stat(path.c_str(), &st) == 0 && !S_ISREG(st.st_mode)) {
    f.direct_ = true;
    f.fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (f.fd_ < 0) return f.io("cannot write");
    return f;
  }
#ifdef O_TMPFILE
  if (::access("/proc/self/fd", X_OK) == 0)  // it gets its name through there
    f.fd_ = ::open(folder_of(f.target_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
#endif
  for (int i = 0; i < 100 && f.fd_ < 0; i++) {
    std::string name = part_name(f.target_, i);
    f.fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f.fd_ >= 0) {
      f.temporary_ = std::move(name);
    } else if (errno != EEXIST) {
      break;
    }
  }
  if (f.fd_ < 0) return f.io("cannot create");
  return f;
}

Status NewFile::reserve(u64 bytes) {
#ifdef __linux__
  if (!direct_ && ::fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, off_t(bytes)) != 0 && (errno == ENOSPC || errno == EFBIG || errno == EDQUOT))
    return io(fmt::format("cannot reserve {} bytes", bytes).c_str());
#endif
  return {};
}

Status NewFile::send(std::span<const u8> b) {
  while (!b.empty()) {
    const ssize_t n = ::write(fd_, b.data(), b.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io("cannot write");
    b = b.subspan(size_t(n));
  }
  return {};
}

Status NewFile::flush() {
  FEWBIT_OK(send(held_));
  held_.clear();
  return {};
}

Status NewFile::write(std::span<const u8> b) {
  if (failed_ || closed_) return Error{Code::io, fmt::format("{}: an earlier write failed", path_)};
  if (held_.size() + b.size() > hold) FEWBIT_OK(flush());
  if (b.size() >= hold) return send(b);
  held_.insert(held_.end(), b.begin(), b.end());
  return {};
}

Status NewFile::close() {
  if (failed_) return Error{Code::io, fmt::format("{}: an earlier write failed", path_)};
  if (closed_) return {};
  FEWBIT_OK(flush());
  if (!direct_ && ::fsync(fd_) != 0) return io("cannot write to the disk");
  closed_ = true;
  if (!temporary_.empty() || direct_) {  // a file without a name lives as long as it is open
    const int f = fd_;
    fd_ = -1;
    if (::close(f) != 0) return io("cannot close");
  }
  return {};
}

Status NewFile::publish() {
  FEWBIT_OK(close());
  if (direct_) return {};
  if (temporary_.empty()) {  // a name for it: one that is free, then the wanted one
    const std::string self = fmt::format("/proc/self/fd/{}", fd_);
    for (int i = 0; i < 100 && temporary_.empty(); i++) {
      std::string name = part_name(target_, i);
      if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
        temporary_ = std::move(name);
      } else if (errno != EEXIST) {
        break;
      }
    }
    if (temporary_.empty()) return io("cannot create");
    ::close(std::exchange(fd_, -1));
  }
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return io("cannot rename into place");
  temporary_.clear();
  if (int d = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); d >= 0) {
    ::fsync(d);  // the name itself; a file system that cannot is no reason to fail
    ::close(d);
  }
  return {};
}

}  // namespace fewbit
