// The run-time view of the list: a table, and lookups in it.
#include "format/format.h"

#include <array>

#include "base/bits.h"
#include "format/encode.h"
#include "format/formats.h"

namespace fewbit {
namespace {

template <class F>
consteval FormatInfo describe(Type type, const char* name, bool weights) {
  FormatInfo info{type, name, F::block, F::bytes, weights, has_encoder<F>(), false};
  if constexpr (requires { F::needs_importance; }) info.needs_importance = F::needs_importance;
  return info;
}

constexpr std::array table{
#define FEWBIT_X(F, id) describe<F>(Type::F, #F, true),
    FEWBIT_WEIGHT_FORMATS(FEWBIT_X)
#undef FEWBIT_X
#define FEWBIT_X(F, id) describe<F>(Type::F, #F, false),
        FEWBIT_OTHER_FORMATS(FEWBIT_X)
#undef FEWBIT_X
};

// id -> index in the table + 1, for the ids that files can hold.
constexpr auto index_of_id = [] {
  std::array<u8, 256> index{};
  for (size_t i = 0; i < table.size(); i++)
    if (u32(table[i].type) < index.size()) index[u32(table[i].type)] = u8(i + 1);
  return index;
}();

}  // namespace

const FormatInfo* find_format(Type type) {
  const u32 id = u32(type);
  if (id < index_of_id.size()) return index_of_id[id] ? &table[index_of_id[id] - 1u] : nullptr;
  for (const FormatInfo& f : table)
    if (f.type == type) return &f;
  return nullptr;
}

const FormatInfo* find_format(std::string_view name) {
  for (const FormatInfo& f : table)
    if (name == f.name) return &f;
  return nullptr;
}

std::span<const FormatInfo> all_formats() { return table; }

const FormatInfo& format_info(Type type) {
  const FormatInfo* f = find_format(type);
  FEWBIT_CHECK(f, "type %u", u32(type));
  return *f;
}

std::optional<u64> tensor_bytes(Type type, u64 n0, u64 rows) {
  const FormatInfo* f = find_format(type);
  if (!f || n0 % u64(f->block) != 0) return std::nullopt;
  auto row = checked_mul(n0 / u64(f->block), u64(f->bytes));
  auto all = row ? checked_mul(*row, rows) : std::nullopt;
  if (all && type == Type::I2_S) all = checked_add(*all, u64(I2_S::tail));
  return all;
}

std::string_view foreign_type_name(u32 id) {
  struct Foreign {
    u32 id;
    const char* name;
  };
  static constexpr Foreign foreign[] = {
      {4, "Q4_2, withdrawn"},
      {5, "Q4_3, withdrawn"},
      {31, "Q4_0_4_4, withdrawn"},
      {32, "Q4_0_4_8, withdrawn"},
      {33, "Q4_0_8_8, withdrawn"},
      {37, "I8_S of BitNet, or interleaved IQ4_NL (withdrawn)"},
      {38, "TL1 of BitNet, or interleaved IQ4_NL (withdrawn)"},
      {97, "Q8_0_X4 of ik_llama.cpp"},
      {98, "Q8_1_X4 of ik_llama.cpp"},
      {99, "Q8_2_X4 of ik_llama.cpp"},
      {133, "Q6_0 of ik_llama.cpp"},
      {134, "IQ1_BN of ik_llama.cpp"},
      {135, "IQ2_BN of ik_llama.cpp"},
      {136, "Q8_K64 of ik_llama.cpp"},
      {137, "IQ2_K of ik_llama.cpp"},
      {138, "IQ3_K of ik_llama.cpp"},
      {139, "IQ4_K of ik_llama.cpp"},
      {140, "IQ5_K of ik_llama.cpp"},
      {141, "IQ6_K of ik_llama.cpp"},
      {144, "IQ4_KS of ik_llama.cpp, or PQ1_0 of PrismML"},
      {145, "IQ2_KS of ik_llama.cpp"},
      {146, "IQ4_KSS of ik_llama.cpp"},
      {147, "Q8_K16 of ik_llama.cpp"},
      {148, "Q8_K32 of ik_llama.cpp"},
      {149, "Q8_KR8 of ik_llama.cpp"},
      {150, "Q8_K128 of ik_llama.cpp"},
      {151, "Q8_KV of ik_llama.cpp"},
      {152, "IQ5_KS of ik_llama.cpp"},
      {153, "IQ2_KT of ik_llama.cpp"},
      {154, "IQ3_KT of ik_llama.cpp"},
      {155, "IQ4_KT of ik_llama.cpp"},
      {156, "IQ3_KS of ik_llama.cpp"},
      {157, "IQ2_KL of ik_llama.cpp"},
      {158, "IQ1_KT of ik_llama.cpp"},
      {202, "Q4_0_R8 of ik_llama.cpp"},
      {206, "Q5_0_R4 of ik_llama.cpp"},
      {208, "Q8_0_R8 of ik_llama.cpp"},
      {210, "Q2_K_R4 of ik_llama.cpp"},
      {211, "Q3_K_R4 of ik_llama.cpp"},
      {212, "Q4_K_R4 of ik_llama.cpp"},
      {213, "Q5_K_R4 of ik_llama.cpp"},
      {214, "Q6_K_R4 of ik_llama.cpp"},
      {216, "IQ2_XXS_R4 of ik_llama.cpp"},
      {217, "IQ2_XS_R4 of ik_llama.cpp"},
      {218, "IQ3_XXS_R4 of ik_llama.cpp"},
      {219, "IQ1_S_R4 of ik_llama.cpp"},
      {220, "IQ4_NL_R4 of ik_llama.cpp"},
      {221, "IQ3_S_R4 of ik_llama.cpp"},
      {222, "IQ2_S_R4 of ik_llama.cpp"},
      {223, "IQ4_XS_R8 of ik_llama.cpp"},
      {229, "IQ1_M_R4 of ik_llama.cpp"},
      {230, "BF16_R16 of ik_llama.cpp"},
      {233, "Q6_0_R4 of ik_llama.cpp"},
      {335, "IQ2_BN_R4 of ik_llama.cpp"},
      {337, "IQ2_K_R4 of ik_llama.cpp"},
      {338, "IQ3_K_R4 of ik_llama.cpp"},
      {339, "IQ4_K_R4 of ik_llama.cpp"},
      {340, "IQ5_K_R4 of ik_llama.cpp"},
      {344, "IQ4_KS_R4 of ik_llama.cpp"},
      {352, "IQ5_KS_R4 of ik_llama.cpp"},
      {398, "Q8_KV_R8 of ik_llama.cpp"},
      {399, "Q8_K_R8 of ik_llama.cpp"},
  };
  for (const Foreign& f : foreign)
    if (f.id == id) return f.name;
  if ((id >= 133 && id <= 158) || (id >= 202 && id <= 399)) return "a type of ik_llama.cpp";
  return "unknown";
}

}  // namespace fewbit
