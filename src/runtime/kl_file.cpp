#include "runtime/kl_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

namespace fewbit::runtime {

static constexpr char magic[8] = {'F', 'E', 'W', 'B', 'I', 'T', 'K', 'L'};

static constexpr u32 version = 2;

static Error io(const std::string& path, const char* what) {
  return {Code::io, fmt::format("{}: {}: {}", path, what, std::strerror(errno))};
}

Result<KlFile> KlFile::create(const std::string& path, int vocab, int n_ctx, int chunks, std::span<const i32> tokens) {
  KlFile f;
  f.path_ = path;
  FEWBIT_TRY(f.out_, NewFile::create(path));
  const u32 head[4] = {version, u32(vocab), u32(n_ctx), u32(chunks)};
  const u64 position = sizeof(f64) + u64(vocab) * sizeof(f32), positions = u64(chunks) * u64(n_ctx - 1 - n_ctx / 2);
  FEWBIT_OK(f.out_->reserve(sizeof magic + sizeof head + tokens.size_bytes() + position * positions));
  FEWBIT_OK(f.out_->write(magic, sizeof magic));
  FEWBIT_OK(f.out_->write(head, sizeof head));
  FEWBIT_OK(f.out_->write(tokens.data(), tokens.size_bytes()));
  return f;
}

Result<KlFile> KlFile::open(const std::string& path, int vocab, int n_ctx, int chunks, std::span<const i32> tokens) {
  KlFile f;
  f.path_ = path;
  f.file_.reset(std::fopen(path.c_str(), "rb"));
  if (!f.file_) return io(path, "cannot open");
  char m[8];
  u32 head[4];
  if (std::fread(m, 1, 8, f.file_.get()) != 8 || std::memcmp(m, magic, 8) != 0 || std::fread(head, 4, 4, f.file_.get()) != 4) {
    return Error{Code::bad_file, fmt::format("{}: not a file of perplexity --kl-save", path)};
  }
  if (head[0] != version)
    return Error{Code::bad_file, fmt::format("{}: a --kl-save file of version {}, this program reads version {}", path, head[0], version)};
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
  return f;
}

Status KlFile::write(std::span<const f32> log_p, f64 nll) {
  FEWBIT_OK(out_->write(&nll, sizeof nll));
  return out_->write(log_p.data(), log_p.size_bytes());
}

Status KlFile::read(std::span<f32> log_p, f64& nll) {
  if (std::fread(&nll, sizeof nll, 1, file_.get()) != 1 ||
      std::fread(log_p.data(), sizeof(f32), log_p.size(), file_.get()) != log_p.size()) {
    return Error{Code::bad_file, fmt::format("{}: ends too early", path_)};
  }
  if (!std::isfinite(nll)) return Error{Code::bad_file, fmt::format("{}: holds a prediction that is not finite", path_)};
  return {};
}

Status KlFile::finish() { return out_->publish(); }

}  // namespace fewbit::runtime
