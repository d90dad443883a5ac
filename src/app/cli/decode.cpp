// decode, encode: raw blocks to float32 and back, for people who write kernels and converters.
#include <fmt/format.h>

#include "app/cli/common.h"
#include "app/cli/values.h"
#include "base/bits.h"
#include "format/format.h"

namespace fewbit::cli {

void add_decode(CLI::App& app, Run& run) {
  struct Options {
    std::string type, in, out;
  };
  auto o = std::make_shared<Options>();
  app.add_option("--type", o->type, "format, e.g. PQ2_0")->required();
  app.add_option("IN", o->in, "blocks (- = standard input)")->required();
  app.add_option("OUT", o->out, "float32, little-endian (- = standard output)")->required();
  run = [o]() -> Status {
    const FormatInfo& f = format_info(parse_type("--type", o->type));
    FEWBIT_OK(keep_apart("OUT", o->out, o->in));
    FEWBIT_TRY(std::string bytes, read_text(o->in));
    i64 n;
    if (f.type == Type::I2_S) {
      if (bytes.size() < 64 || (bytes.size() - 32) % 32 != 0) {
        return Error{Code::bad_file, fmt::format("{}: {} bytes are not n/4 + 32 with n a multiple of 128 (I2_S)", o->in, bytes.size())};
      }
      n = i64(bytes.size() - 32) * 4;
    } else {
      if (bytes.empty() || bytes.size() % size_t(f.bytes) != 0) {
        return Error{Code::bad_file,
                     fmt::format("{}: {} bytes are not a whole number of {}-byte {} blocks", o->in, bytes.size(), f.bytes, f.name)};
      }
      n = i64(bytes.size()) / f.bytes * f.block;
    }
    std::vector<f32> out(static_cast<size_t>(n));
    decode_tensor(f.type, {reinterpret_cast<const u8*>(bytes.data()), bytes.size()}, out);
    return write_bytes(o->out, out.data(), out.size() * sizeof(f32));
  };
}

void add_encode(CLI::App& app, Run& run) {
  struct Options {
    std::string type, in, out, imatrix;
    i64 row = 0;
  };
  auto o = std::make_shared<Options>();
  app.add_option("--type", o->type, "format, e.g. PQ2_0")->required();
  app.add_option("--row", o->row, "numbers per row (default: all are one row)")->check(whole(1, i64(1) << 40));
  app.add_option("--imatrix", o->imatrix, "one float32 weight per column of a row");
  app.add_option("IN", o->in, "float32, little-endian (- = standard input)")->required();
  app.add_option("OUT", o->out, "blocks (- = standard output)")->required();
  run = [o]() -> Status {
    const FormatInfo& f = format_info(parse_type("--type", o->type));
    if (!f.has_encoder) return Error{Code::unsupported, fmt::format("--type {}: no encoder for this format", f.name)};
    for (const std::string& in : {o->in, o->imatrix}) FEWBIT_OK(keep_apart("OUT", o->out, in));
    FEWBIT_TRY(std::string raw, read_text(o->in));
    if (raw.empty() || raw.size() % 4 != 0)
      return Error{Code::bad_file, fmt::format("{}: {} bytes are not a whole number of float32", o->in, raw.size())};
    std::vector<f32> x(raw.size() / 4);
    std::memcpy(x.data(), raw.data(), raw.size());
    i64 row = o->row ? o->row : i64(x.size());
    if (i64(x.size()) % row != 0)
      return Error{Code::bad_file, fmt::format("{}: {} numbers are not a whole number of rows of {}", o->in, x.size(), row)};
    std::vector<f32> importance;
    if (!o->imatrix.empty()) {
      FEWBIT_TRY(std::string w, read_text(o->imatrix));
      if (i64(w.size()) != row * 4) {
        return Error{Code::bad_file,
                     fmt::format("{}: {} bytes, one float32 for each of {} columns are {}", o->imatrix, w.size(), row, row * 4)};
      }
      importance.resize(size_t(row));
      std::memcpy(importance.data(), w.data(), w.size());
    }
    auto size = tensor_bytes(f.type, u64(row), u64(i64(x.size()) / row));
    if (!size)
      return Error{Code::invalid_argument,
                   fmt::format("{}: rows of {} numbers are not a multiple of the {}-element block of {}", o->in, row, f.block, f.name)};
    std::vector<u8> out(*size);
    FEWBIT_OK(encode_tensor(f.type, x, row, importance, out));
    return write_bytes(o->out, out.data(), out.size());
  };
}

}  // namespace fewbit::cli
