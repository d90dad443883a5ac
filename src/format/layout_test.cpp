// Where the bits of a block lie: the examples of formats.md section 4, every value of a code byte, and codes by words.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "format/decode.h"
#include "format/format.h"

namespace fewbit {
namespace {

struct Example {
  Type type;
  std::vector<std::array<int, 2>> bytes;      // position, value; the rest is 0
  std::vector<std::pair<int, f64>> elements;  // index, weight
};
const Example examples[] = {
    {Type::Q4_0, {{0, 0x00}, {1, 0x3c}, {2, 0xf1}, {3, 0x08}}, {{0, -7.0}, {1, 0.0}, {16, 7.0}, {17, -8.0}}},
    {Type::Q4_1, {{0, 0x00}, {1, 0x38}, {2, 0x00}, {3, 0xbc}, {4, 0xf1}}, {{0, -0.5}, {16, 6.5}, {1, -1.0}}},
    {Type::Q5_0, {{0, 0x00}, {1, 0x3c}, {2, 0x01}, {3, 0x00}, {5, 0x80}, {6, 0xf1}}, {{0, 1.0}, {1, -16.0}, {16, -1.0}, {31, 0.0}}},
    {Type::Q5_1, {{0, 0x00}, {1, 0x3c}, {2, 0x00}, {3, 0xc0}, {4, 0x01}, {8, 0xf1}}, {{0, 15.0}, {1, -2.0}, {16, 13.0}}},
    {Type::Q8_0, {{0, 0x00}, {1, 0x38}, {2, 0x7f}, {3, 0x80}}, {{0, 63.5}, {1, -64.0}, {2, 0.0}}},
    {Type::Q2_K,
     {{80, 0x00}, {81, 0x3c}, {82, 0x00}, {83, 0x38}, {0, 0x21}, {1, 0x13}, {16, 0xe4}, {32, 0x02}},
     {{0, -1.0}, {16, 5.5}, {32, 0.0}, {64, 0.0}, {96, 0.0}}},
    {Type::Q3_K, {{108, 0x00}, {109, 0x3c}, {96, 0x01}, {104, 0x02}, {0, 0x01}, {32, 0x03}}, {{0, 3.0}, {1, -4.0}, {16, 128.0}}},
    {Type::Q4_K,
     {{0, 0x00}, {1, 0x3c}, {2, 0x00}, {3, 0x38}, {4, 0x43}, {8, 0x81}, {12, 0x21}, {16, 0x5f}, {80, 0x01}},
     {{0, 44.5}, {32, 0.0}, {128, 0.0}, {129, -17.0}}},
    {Type::Q5_K, {{0, 0x00}, {1, 0x3c}, {4, 0x02}, {16, 0x01}, {48, 0x1f}}, {{0, 62.0}, {32, 0.0}}},
    {Type::Q6_K,
     {{208, 0x00}, {209, 0x3c}, {192, 0x02}, {194, 0xff}, {0, 0x1f}, {32, 0x01}, {128, 0x09}},
     {{0, -2.0}, {32, -1.0}, {64, -0.0}}},
    {Type::IQ2_XXS, {{0, 0x00}, {1, 0x3c}, {2, 0x01}, {6, 0x01}, {9, 0x10}}, {{0, -16.125}, {1, 3.0}, {2, 3.0}, {7, -3.0}, {8, 3.0}}},
    {Type::IQ2_XS, {{0, 0x00}, {1, 0x3c}, {2, 0x01}, {3, 0x02}, {66, 0x31}}, {{0, -16.125}, {1, 3.0}, {7, -3.0}, {16, 7.0}}},
    {Type::IQ2_S, {{0, 0x00}, {1, 0x3c}, {2, 0x01}, {34, 0x02}, {66, 0x02}, {74, 0x31}}, {{0, 9.375}, {1, -3.0}, {2, 3.0}}},
    {Type::IQ3_XXS, {{0, 0x00}, {1, 0x3c}, {2, 0x01}, {3, 0x02}, {66, 0x03}, {69, 0x10}}, {{0, -15.0}, {1, -3.0}, {4, 27.0}, {5, 3.0}}},
    {Type::IQ3_S, {{0, 0x00}, {1, 0x3c}, {2, 0x01}, {66, 0x01}, {74, 0x02}, {106, 0x21}}, {{0, 15.0}, {1, -21.0}, {32, 5.0}}},
    {Type::IQ1_S, {{0, 0x00}, {1, 0x3c}, {2, 0x01}, {34, 0x01}, {35, 0x90}}, {{0, 2.625}, {1, -0.375}, {7, -3.375}}},
    {Type::IQ1_M, {{0, 0x01}, {32, 0x09}, {48, 0x01}, {53, 0xc0}, {55, 0x30}}, {{0, 2.625}, {1, -0.375}, {8, -2.625}}},
    {Type::IQ4_NL, {{0, 0x00}, {1, 0x3c}, {2, 0xf8}}, {{0, 1.0}, {16, 113.0}, {1, -127.0}}},
    {Type::IQ4_XS, {{0, 0x00}, {1, 0x3c}, {2, 0x02}, {4, 0x01}, {8, 0xf8}}, {{0, 1.0}, {16, 113.0}, {1, -127.0}}},
    {Type::TQ1_0, {{52, 0x00}, {53, 0x3c}, {0, 0xcf}}, {{0, 1.0}, {32, 0.0}, {64, -1.0}, {96, 1.0}, {128, 0.0}}},
    {Type::TQ2_0, {{64, 0x00}, {65, 0x3c}, {0, 0x86}}, {{0, 1.0}, {32, 0.0}, {64, -1.0}, {96, 1.0}}},
    {Type::MXFP4, {{0, 0x80}, {1, 0xf7}}, {{0, 12.0}, {16, -12.0}, {1, 0.0}}},
    {Type::NVFP4, {{0, 0x40}, {1, 0x38}, {4, 0xf7}, {12, 0x01}}, {{0, 12.0}, {8, -12.0}, {16, 0.5}}},
    {Type::Q1_0, {{0, 0x00}, {1, 0x38}, {2, 0x05}}, {{0, 0.5}, {1, -0.5}, {2, 0.5}, {3, -0.5}}},
    {Type::Q2_0, {{0, 0x00}, {1, 0x3c}, {2, 0xe4}}, {{0, -1.0}, {1, 0.0}, {2, 1.0}, {3, 2.0}}},
    {Type::PTQ1_0,
     {{26, 0x00}, {27, 0x3c}, {0, 0xcf}, {16, 0xcf}, {24, 0xcf}},
     {{0, 1.0}, {16, 0.0}, {32, -1.0}, {48, 1.0}, {64, 0.0}, {80, 1.0}, {88, 0.0}, {120, 1.0}, {122, 0.0}}},
    {Type::PQ2_0, {{0, 0x00}, {1, 0x3c}, {33, 0xe4}}, {{124, -1.0}, {125, 0.0}, {126, 1.0}, {127, 2.0}}},
};

TEST(Layout, ExamplesOfTheSpecification) {
  for (const Example& x : examples) {
    SCOPED_TRACE(type_name(x.type));
    const FormatInfo& f = format_info(x.type);
    std::vector<u8> block(size_t(f.bytes), 0);
    for (auto [at, value] : x.bytes) block[size_t(at)] = u8(value);
    std::vector<f32> out(size_t(f.block));
    decode_row(x.type, block, out);
    for (auto [e, w] : x.elements) {
      EXPECT_EQ(out[size_t(e)], f32(w)) << "element " << e;
      EXPECT_EQ(std::signbit(out[size_t(e)]), std::signbit(w)) << "element " << e;
    }
  }
}

constexpr u16 one = 0x3c00;  // 1.0 as f16

// Decodes a block whose code bytes are all `byte` and whose scale is 1.
template <class F>
std::vector<f32> block_of(u32 byte) {
  std::vector<u8> block(F::bytes, u8(byte));
  block[F::scale_at] = one & 255;
  block[F::scale_at + 1] = one >> 8;
  std::vector<f32> out(F::block);
  decode_block<F>(block.data(), out.data());
  return out;
}

TEST(Layout, EveryByteOfTheTwoBitFormats) {
  for (u32 byte = 0; byte < 256; byte++) {
    const f32 w[4] = {f32(byte % 4) - 1, f32(byte / 4 % 4) - 1, f32(byte / 16 % 4) - 1, f32(byte / 64) - 1};
    const auto q = block_of<Q2_0>(byte), pq = block_of<PQ2_0>(byte), legacy = block_of<Q2_0_LEGACY128>(byte), tq = block_of<TQ2_0>(byte);
    for (size_t e = 0; e < 64; e++) ASSERT_EQ(q[e], w[e % 4]) << byte << " " << e;
    for (size_t e = 0; e < 128; e++) ASSERT_EQ(pq[e], w[e % 4]) << byte << " " << e;
    for (size_t e = 0; e < 256; e++) ASSERT_EQ(tq[e], w[e / 32 % 4]) << byte << " " << e;
    EXPECT_EQ(legacy, pq);

    std::vector<u8> i2(32 + 32, u8(byte));   // one block, then the scale
    const u8 scale[4] = {0, 0, 0x80, 0x3f};  // 1.0
    std::copy_n(scale, 4, i2.begin() + 32);
    std::vector<f32> out(128);
    decode_tensor(Type::I2_S, i2, out);
    for (size_t e = 0; e < 128; e++) ASSERT_EQ(out[e], w[3 - e / 32]) << byte << " " << e;
  }
}

TEST(Layout, EveryByteOfTheBinaryFormat) {
  for (u32 byte = 0; byte < 256; byte++) {
    const auto w = block_of<Q1_0>(byte);
    for (u32 e = 0; e < 128; e++) ASSERT_EQ(w[e], (byte / (1u << e % 8)) % 2 ? 1 : -1) << byte << " " << e;
  }
}

TEST(Layout, EveryByteOfTheBase3Formats) {
  for (u32 byte = 0; byte < 256; byte++) {
    // The byte is a fraction of 256; its first five base-3 digits are those of floor(243 * fraction).
    const u32 number = byte * 243 / 256;
    const f32 digit[5] = {f32(number / 81) - 1, f32(number / 27 % 3) - 1, f32(number / 9 % 3) - 1, f32(number / 3 % 3) - 1,
                          f32(number % 3) - 1};
    const auto tq = block_of<TQ1_0>(byte), ptq = block_of<PTQ1_0>(byte);
    for (size_t e = 0; e < 256; e++)
      ASSERT_EQ(tq[e], digit[e < 160 ? e / 32 : e < 240 ? (e - 160) / 16 : (e - 240) / 4]) << byte << " " << e;
    for (size_t e = 0; e < 128; e++) ASSERT_EQ(ptq[e], digit[e < 80 ? e / 16 : e < 120 ? (e - 80) / 8 : (e - 120) / 2]) << byte << " " << e;
  }
}

// Words, planes, at and step name every element once, and codes gives what level does.
template <class F>
void check_planes(const char* name) {
  if constexpr (requires { F::words; }) {
    SCOPED_TRACE(name);
    std::vector<u8> block(F::bytes);
    u32 s = 1;
    for (u8& b : block) b = u8((s = s * 1664525 + 1013904223) >> 24);
    std::vector<int> seen(F::block, 0);
    for (int t = 0; t < F::words; t++)
      for (int p = 0; p < F::planes; p++) {
        const u32 codes = F::codes(u32_at(block.data() + F::codes_at + 4 * t), p);
        for (int j = 0; j < 4; j++) {
          const int e = F::at(t, p) + F::step * j;
          ASSERT_TRUE(e >= 0 && e < F::block);
          seen[size_t(e)]++;
          const u32 code = codes >> (8 * j) & 255;
          if constexpr (requires { F::level_of(0u); })
            ASSERT_EQ(F::level_of(code), F::level(block.data(), e)) << e;
          else
            ASSERT_EQ(i32(code) - F::zero, F::level(block.data(), e)) << e;
        }
      }
    for (int n : seen) ASSERT_EQ(n, 1);
  }
}
TEST(Layout, WordsAndPlanesCoverTheBlock) {
#define FEWBIT_X(F, id) check_planes<F>(#F);
  FEWBIT_FORMATS(FEWBIT_X)
#undef FEWBIT_X
}

}  // namespace
}  // namespace fewbit
