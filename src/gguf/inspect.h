// What a file is, for people and scripts.
#pragma once
#include <string>

#include "base/json.h"
#include "gguf/gguf.h"

namespace fewbit::gguf {

struct InspectOptions {
  size_t list_items = 8;      // of an array in the metadata; 0: all
  size_t string_bytes = 160;  // of a string in the metadata; 0: all
};

// An object with
//   file, version, bytes, pieces, alignment
//   architecture   general.architecture ("" if there is none)
//   variant        the weights in a few words: "PQ2_0 ternary, Hadamard-rotated (blocks of 256)"
//   producer       who wrote it, as far as ids and keys tell; "" if they do not
//   metadata       key -> value; a shortened array is {"type", "count", "first": [...]}, bytes that are not UTF-8 become U+FFFD
//   parameters     elements of all tensors
//   bits_per_weight  of the tensors with two or more dimensions, their padding not counted
//   types          type -> {tensors, parameters, bytes}
//   tensors        [{name, shape: [fastest first], type, bytes, piece (if there are several)}]; the caller may add
//                  "kernel" or "refusal" to each, and "device" to the whole
Json inspect(const File& file, const InspectOptions& options = {});

// The same as text: a summary, the metadata and, if asked, one line per tensor (with its "kernel" or "refusal" if it has one).
std::string inspect_text(const Json& summary, bool tensors);

}  // namespace fewbit::gguf
