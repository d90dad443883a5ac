// The file of --kl-save: log-probabilities of every counted position, written and read position by position.
//
//   "FEWBITKL" u32 version = 2, u32 vocab, u32 n_ctx, u32 chunks, then chunks * n_ctx i32 token ids,
//   then per counted position, in order: f64 nll of the token that followed, vocab f32: ln p
//
// Whole floats, so that a model compared with itself is at distance 0.  Codes of 16 bits over a range of 32 (version 1) would halve the
// file, but their rounding alone counts as a distance of 1e-8 to 1e-5.
#pragma once
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/new_file.h"
#include "base/result.h"
#include "base/types.h"

namespace fewbit::runtime {

class KlFile {
 public:
  static Result<KlFile> create(const std::string& path, int vocab, int n_ctx, int chunks, std::span<const i32> tokens);
  // Error: not such a file, or made with another vocabulary, context or text.
  static Result<KlFile> open(const std::string& path, int vocab, int n_ctx, int chunks, std::span<const i32> tokens);

  Status write(std::span<const f32> log_p, f64 nll);
  Status read(std::span<f32> log_p, f64& nll);
  Status finish();  // of a created file: only now does it appear

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::unique_ptr<std::FILE, Close> file_;  // read
  std::optional<NewFile> out_;              // written
  std::string path_;
};

}  // namespace fewbit::runtime
