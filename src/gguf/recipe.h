// Which type each weight of a model gets: the mixes that people know from llama-quantize (Q3_K_M, IQ2_M ...), where a few weights that
// matter more than their size gets more bits.  Plain functions of a tensor's role; nothing here reads a file.
#pragma once
#include <string>
#include <string_view>

#include "format/format.h"

namespace fewbit::gguf {

// A name that `quantize` takes.  mix: other roles than the base type are given where they pay.
struct Recipe {
  const char* name;  // "Q3_K_M"
  Type base;
  u32 file_type;  // general.file_type, formats.md section 3
};
// Known file-type names, then every type that can be written under its own name.  nullptr: unknown.
const Recipe* find_recipe(std::string_view name);
std::string recipe_names();  // for messages

enum class Role { embedding, head, attn_q, attn_k, attn_v, attn_qkv, attn_output, ffn_gate, ffn_up, ffn_down, other };
Role role_of(std::string_view name);
// Layer of "blk.N.", or -1.
int layer_of(std::string_view name);

// Is the tensor a matrix that a quantiser should touch?  Norms, routers, one-dimensional tensors, convolutions and the small matrices
// that steer DeltaNet's state stay as they are.
bool is_quantizable(std::string_view name, int n_dims, i64 rows);

struct RoleContext {
  Role role = Role::other;
  int index = 0, count = 1;  // among the layers that have this role
  int heads_per_kv = 1;      // grouped-query attention
  i64 experts = 0;           // of the model
  bool is_expert = false;    // this tensor holds experts
  bool importance = false;   // an importance matrix was given
};
Type mixed_type(const Recipe& recipe, const RoleContext& c);

// A type near `wanted` whose block divides rows of n0.
Type dividing_type(Type wanted, i64 n0);

// {-d, 0, d} or a close relative: made for weights that were trained that way, not for rounding others.
bool is_ternary_type(Type t);

}  // namespace fewbit::gguf
