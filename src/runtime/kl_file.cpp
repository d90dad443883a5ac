#include "runtime/kl_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

namespace fewbit::runtime {

static constexpr char magic[8] = {'F', 'E', 'W', 'B', 'I', 'T', 'K', 'L'};

static Error io(const std::string& path, const char* what) {
  return {Code::io, fmt::format("{}: {}: {}", path, what, std::strerror(errno))};
}

Result<KlFile> KlFile::create(const std::string& path, int vocab, int n_ctx, int chunks, std::span<const i32> tokens) {
  std::error_code ec;
  if (std::filesystem::exists(path, ec) && !std::filesystem::is_regular_file(path, ec)) {
    return Error{Code::io, fmt::format("{}: is not a regular file and will not be replaced", path)};
  }
  KlFile f;
  f.path_ = path;
  f.temporary_ = path + ".part";
  f.file_.reset(std::fopen(f.temporary_.c_str(), "wb"));
  if (!f.file_) return io(f.temporary_, "cannot create");
  const u32 head[4] = {1, u32(vocab), u32(n_ctx), u32(chunks)};
  bool good = std::fwrite(magic, 1, 8, f.file_.get()) == 8 && std::fwrite(head, 4, 4, f.file_.get()) == 4 &&
              std::fwrite(tokens.data(), 4, tokens.size(), f.file_.get()) == tokens.size();
  if (!good) return io(f.temporary_, "cannot write");
  f.codes_.resize(size_t(vocab));
  return f;
}

Result<KlFile> KlFile::open(const std::string& path, int vocab, int n_ctx, int chunks, std::span<const i32> tokens) {
  KlFile f;
  f.path_ = path;
  f.file_.reset(std::fopen(path.c_str(), "rb"));
  if (!f.file_) return io(path, "cannot open");
  char m[8];
  u32 head[4];
  if (std::fread(m, 1, 8, f.file_.get()) != 8 || std::memcmp(m, magic, 8) != 0 || std::fread(head, 4, 4, f.file_.get()) != 4 ||
      head[0] != 1) {
    return Error{Code::bad_file, fmt::format("{}: not a file of perplexity --kl-save", path)};
  }
  if (head[1] != u32(vocab) || head[2] != u32(n_ctx)) {
    return Error{Code::bad_file, fmt::format("{}: saved with a vocabulary of {} and windows of {}, here they are {} and {}", path, head[1],
                                             head[2], vocab, n_ctx)};
  }
  if (head[3] < u32(chunks)) {
    return Error{Code::bad_file, fmt::format("{}: holds {} windows, {} are wanted (use --chunks {})", path, head[3], chunks, head[3])};
  }
  std::vector<i32> saved(static_cast<size_t>(n_ctx));
  for (u32 c = 0; c < head[3]; c++) {
    if (std::fread(saved.data(), 4, saved.size(), f.file_.get()) != saved.size())
      return Error{Code::bad_file, fmt::format("{}: ends in its token ids", path)};
    if (c < u32(chunks) && !std::equal(saved.begin(), saved.end(), tokens.begin() + i64(c) * n_ctx)) {
      return Error{Code::bad_file, fmt::format("{}: saved over another text (window {} differs)", path, c)};
    }
  }
  f.codes_.resize(size_t(vocab));
  return f;
}

Status KlFile::write(std::span<const f32> log_p, f32 nll) {
  const auto [lo, hi] = std::minmax_element(log_p.begin(), log_p.end());
  const f32 top = *hi, range = std::min(32.0f, top - *lo);
  const f32 step = range > 0 ? range / 65535 : 1;
  for (size_t i = 0; i < log_p.size(); i++) codes_[i] = u16(std::min(65535.0f, std::round((top - log_p[i]) / step)));
  const f32 head[3] = {nll, top, step};
  if (std::fwrite(head, 4, 3, file_.get()) != 3 || std::fwrite(codes_.data(), 2, codes_.size(), file_.get()) != codes_.size())
    return io(temporary_, "cannot write");
  return {};
}

Status KlFile::read(std::span<f32> log_p, f32& nll) {
  f32 head[3];
  if (std::fread(head, 4, 3, file_.get()) != 3 || std::fread(codes_.data(), 2, codes_.size(), file_.get()) != codes_.size()) {
    return Error{Code::bad_file, fmt::format("{}: ends too early", path_)};
  }
  nll = head[0];
  for (size_t i = 0; i < log_p.size(); i++) log_p[i] = head[1] - head[2] * f32(codes_[i]);
  return {};
}

Status KlFile::finish() {
  if (std::fflush(file_.get()) != 0) return io(temporary_, "cannot write");
  file_.reset();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return io(path_, "cannot rename to");
  return {};
}

}  // namespace fewbit::runtime
