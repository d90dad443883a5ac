// The list itself, against the table of formats.md section 2.
#include "format/format.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace fewbit {
namespace {

struct Row {
  u32 id;
  const char* name;
  int block, bytes;
};
constexpr Row spec[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},  {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {36, "I2_S", 128, 32},    {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},    {41, "Q1_0", 128, 18},    {42, "Q2_0", 64, 18},
    {142, "PQ2_0", 128, 34},  {143, "PTQ1_0", 128, 28}, {0x10000 + 42, "Q2_0_LEGACY128", 128, 34},
};

TEST(Format, TheListIsTheTableOfTheSpecification) {
  EXPECT_EQ(all_formats().size(), std::size(spec));
  for (const Row& row : spec) {
    SCOPED_TRACE(row.name);
    const FormatInfo* f = find_format(Type(row.id));
    ASSERT_NE(f, nullptr);
    EXPECT_STREQ(f->name, row.name);
    EXPECT_EQ(f, find_format(std::string_view(row.name)));
    EXPECT_EQ(f->block, row.block);
    EXPECT_EQ(f->bytes, row.bytes);
    EXPECT_EQ(f, &format_info(f->type));
  }
}

TEST(Format, UnknownIdsAreUnknownAndNamedWhereSomebodyUsesThem) {
  std::set<u32> known;
  for (const Row& row : spec) known.insert(row.id);
  for (u32 id = 0; id < 70000; id++) ASSERT_EQ(find_format(Type(id)) != nullptr, known.count(id) == 1) << id;
  EXPECT_EQ(find_format(Type(0xffffffffu)), nullptr);
  EXPECT_EQ(find_format(Type(0x80000000u)), nullptr);
  EXPECT_EQ(find_format("Q2_k"), nullptr);
  EXPECT_EQ(find_format(""), nullptr);
  EXPECT_EQ(foreign_type_name(139), "IQ4_K of ik_llama.cpp");
  EXPECT_NE(foreign_type_name(144).find("PQ1_0"), std::string_view::npos);
  EXPECT_NE(foreign_type_name(31).find("withdrawn"), std::string_view::npos);
  EXPECT_EQ(foreign_type_name(250), "a type of ik_llama.cpp");
  EXPECT_EQ(foreign_type_name(100000), "unknown");
}

TEST(Format, WhichTypesCanBeWrittenAndNeedAnImportanceMatrix) {
  for (const FormatInfo& f : all_formats()) {
    SCOPED_TRACE(f.name);
    const std::string name = f.name;
    EXPECT_EQ(f.needs_importance, name == "IQ2_XXS" || name == "IQ2_XS" || name == "IQ1_S");
    EXPECT_EQ(f.weights, !name.starts_with("I8") && name != "I16" && name != "I32" && name != "I64" && name != "F64" && name != "Q8_1" &&
                             name != "Q8_K");
    EXPECT_EQ(f.has_encoder, (f.weights || name.starts_with("Q8")) && name != "Q2_0_LEGACY128");
  }
}

TEST(Format, TensorBytes) {
  EXPECT_EQ(tensor_bytes(Type::PQ2_0, 256, 3), 3u * 2 * 34);
  EXPECT_EQ(tensor_bytes(Type::I2_S, 256, 3), 256u * 3 / 4 + 32);
  EXPECT_EQ(tensor_bytes(Type::F32, 0, 0), 0u);
  EXPECT_FALSE(tensor_bytes(Type::PQ2_0, 192, 3));         // not whole blocks
  EXPECT_FALSE(tensor_bytes(Type::F64, u64(1) << 60, 4));  // overflows
  EXPECT_FALSE(tensor_bytes(Type::F64, u64(1) << 62, 1));
  EXPECT_FALSE(tensor_bytes(Type::I2_S, u64(1) << 33, u64(1) << 33));
  EXPECT_FALSE(tensor_bytes(Type(31), 256, 1));
  EXPECT_EQ(row_bytes(Type::IQ2_XXS, 512), 132u);
  EXPECT_DOUBLE_EQ(format_info(Type::PTQ1_0).bits_per_weight(), 1.75);
}

}  // namespace
}  // namespace fewbit
