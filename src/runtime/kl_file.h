// The file of --kl-save: log-probabilities of every counted position, written and read position by position.
//
//   "FEWBITKL" u32 version = 1, u32 vocab, u32 n_ctx, u32 chunks, then chunks * n_ctx i32 token ids,
//   then per counted position, in order: f32 nll of the token that followed, f32 top, f32 step, vocab u16 codes: ln p = top - step * code
//
// The step is (top - max(lowest, top - 32)) / 65535: at most 0.0005 between neighbours, tokens below e^-32 of the best count as that.
#pragma once
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace fewbit::runtime {

class KlFile {
 public:
  static Result<KlFile> create(const std::string& path, int vocab, int n_ctx, int chunks, std::span<const i32> tokens);
  // Error: not such a file, or made with another vocabulary, context or text.
  static Result<KlFile> open(const std::string& path, int vocab, int n_ctx, int chunks, std::span<const i32> tokens);

  Status write(std::span<const f32> log_p, f32 nll);
  Status read(std::span<f32> log_p, f32& nll);
  Status finish();  // of a created file: flushed, and renamed to its name

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  std::string path_, temporary_;
  std::vector<u16> codes_;
};

}  // namespace fewbit::runtime
