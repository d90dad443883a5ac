// The generated headers against the committed text.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "format/decode.h"
#include "format/search/lattice.h"

namespace fewbit {
namespace {

std::vector<std::vector<f64>> read_codebook(const std::string& name) {
  std::ifstream f(std::filesystem::path(FEWBIT_SOURCE_DIR) / "src/format/codebooks" / (name + ".txt"));
  EXPECT_TRUE(f.good()) << name;
  std::vector<std::vector<f64>> rows;
  for (std::string line; std::getline(f, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream in(line);
    rows.emplace_back();
    for (f64 v; in >> v;) rows.back().push_back(v);
  }
  return rows;
}

template <class F>
void check_grid(const std::string& name, size_t dims) {
  SCOPED_TRACE(name);
  const auto rows = read_codebook(name);
  ASSERT_EQ(rows.size(), size_t(F::grid_size));
  std::set<u64> points;
  for (size_t i = 0; i < rows.size(); i++) {
    ASSERT_EQ(rows[i].size(), dims);
    for (size_t j = 0; j < dims; j++) ASSERT_EQ(byte_at(F::host_grid()[i], int(j)), i32(rows[i][j])) << i << " " << j;
    EXPECT_TRUE(points.insert(F::host_grid()[i]).second) << "point " << i << " twice";
  }
}

TEST(Codebook, Grids) {
  check_grid<IQ2_XXS>("iq2xxs", 8);
  check_grid<IQ2_XS>("iq2xs", 8);
  check_grid<IQ2_S>("iq2s", 8);
  check_grid<IQ3_XXS>("iq3xxs", 4);
  check_grid<IQ3_S>("iq3s", 4);
  check_grid<IQ1_S>("iq1s", 8);
  check_grid<IQ1_M>("iq1s", 8);
}

TEST(Codebook, TablesOfSixteen) {
  const auto nl = read_codebook("iq4nl"), fp4 = read_codebook("fp4_e2m1_doubled");
  ASSERT_EQ(nl.size(), 16u);
  ASSERT_EQ(fp4.size(), 16u);
  for (u32 c = 0; c < 16; c++) {
    EXPECT_EQ(IQ4_NL::level_of(c), i32(nl[c][0]));
    EXPECT_EQ(IQ4_XS::level_of(c), i32(nl[c][0]));
    EXPECT_EQ(MXFP4::level_of(c), i32(fp4[c][0]));
    EXPECT_EQ(NVFP4::level_of(c), i32(fp4[c][0]));
    EXPECT_EQ(codebook::iq4nl[c], i32(nl[c][0]));
    EXPECT_EQ(codebook::fp4_e2m1_doubled[c], i32(fp4[c][0]));
  }
}

// What is computed instead of looked up.
TEST(Codebook, SignsAndScales) {
  const auto ksigns = read_codebook("ksigns"), kmask = read_codebook("kmask"), ue4m3 = read_codebook("ue4m3_halved");
  ASSERT_EQ(ksigns.size(), 128u);
  ASSERT_EQ(kmask.size(), 8u);
  ASSERT_EQ(ue4m3.size(), 256u);
  for (u32 k = 0; k < 128; k++) EXPECT_EQ(even_signs(k), u32(ksigns[k][0])) << k;
  for (u32 j = 0; j < 8; j++) EXPECT_EQ(spread_mask(u32(kmask[j][0])), 0xffull << (8 * j));
  for (u32 s = 0; s < 256; s++) EXPECT_EQ(NVFP4::scale_of(s), f32(ue4m3[s][0])) << s;
}

TEST(Codebook, BytesAreNegatedAndShiftedApart) {
  for (u32 mask = 0; mask < 256; mask++) {
    const u64 n = negate_bytes(0x3e2b190801030f3eull, mask), m = 0x3e2b190801030f3eull;
    for (int j = 0; j < 8; j++) ASSERT_EQ(byte_at(n, j), (mask >> j & 1) ? -byte_at(m, j) : byte_at(m, j)) << mask << " " << j;
  }
  for (int i = 0; i < 2048; i++)
    for (bool minus : {false, true})
      for (int j = 0; j < 8; j++)
        ASSERT_EQ(byte_at(shifted_ternary(codebook::iq1s[i], minus), j), 8 * byte_at(codebook::iq1s[i], j) + (minus ? -1 : 1));
}

// Brute force on some code vectors: the neighbours are the points of the least distances, in order, the last one repeated.
template <class F>
void check_lattice(const char* name, int rings) {
  SCOPED_TRACE(name);
  const Lattice& t = lattice_of<F>();
  u32 off_grid = 0;
  for (size_t key = 0; key < t.entries.size(); key++) {
    int code[8], rest = int(key);
    for (int j = 0; j < t.dims; j++) code[j] = rest % t.levels, rest /= t.levels;
    const auto& entry = t.entries[key];
    if (entry.point >= 0) {
      for (int j = 0; j < t.dims; j++) ASSERT_EQ(t.codes_of(entry.point)[j], code[j]);
      continue;
    }
    if (off_grid++ % 97 != 0) continue;
    std::vector<std::pair<int, u16>> all;
    for (int p = 0; p < F::grid_size; p++) {
      int d2 = 0;
      for (int j = 0; j < t.dims; j++) d2 += (code[j] - t.codes_of(p)[j]) * (code[j] - t.codes_of(p)[j]);
      all.emplace_back(d2, u16(p));
    }
    std::sort(all.begin(), all.end());
    size_t n = 0;
    for (int ring = 0, last = -1; n < all.size(); n++) {
      if (all[n].first != last && ring++ == rings) break;
      last = all[n].first;
    }
    ASSERT_EQ(entry.blocks, (n + 7) / 8);
    for (size_t i = 0; i < 8u * entry.blocks; i++) {
      const u16 point = all[std::min(i, n - 1)].second;
      ASSERT_EQ(t.near_points[entry.first + i], point);
      u32 packed = 0;
      for (int j = 0; j < t.dims; j++) packed |= u32(t.codes_of(point)[j]) << ((t.dims == 8 ? 2 : 3) * j);
      ASSERT_EQ(t.near_codes[entry.first + i], packed);
    }
  }
  EXPECT_EQ(off_grid + u32(F::grid_size), t.entries.size());
}
TEST(Codebook, Neighbours) {
  check_lattice<IQ2_XXS>("IQ2_XXS", 2);
  check_lattice<IQ2_XS>("IQ2_XS", 2);
  check_lattice<IQ2_S>("IQ2_S", 1);
  check_lattice<IQ3_XXS>("IQ3_XXS", 2);
  check_lattice<IQ3_S>("IQ3_S", 3);
  check_lattice<IQ1_S>("IQ1_S", 3);
}

}  // namespace
}  // namespace fewbit
