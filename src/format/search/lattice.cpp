#include "format/search/lattice.h"

#include "format/formats.h"

namespace fewbit {
namespace {

// The codes of the points, from decoded magnitudes or signs (codebooks/*.txt).
template <class F>
std::vector<u8> codes_of_grid(int dims) {
  std::vector<u8> codes;
  for (int p = 0; p < F::grid_size; p++)
    for (int j = 0; j < dims; j++) {
      const i32 v = byte_at(F::host_grid()[p], j);
      if constexpr (F::grid_size == 2048)
        codes.push_back(u8(v + 1));  // -1 0 1
      else if constexpr (std::is_same_v<F, IQ3_S>)
        codes.push_back(u8(v / 2));  // 1 3 .. 15
      else if constexpr (std::is_same_v<F, IQ3_XXS>)
        codes.push_back(u8(v / 8));  // 4 12 .. 52 62
      else
        codes.push_back(u8(v / 16));  // 8 25 43
    }
  return codes;
}

template <class F>
Lattice build(int rings) {
  constexpr int dims = sizeof(typename F::Grid), levels = dims == 8 ? 3 : 8, bits = dims == 8 ? 2 : 3;
  Lattice t{dims, levels, {}, {}, {}, codes_of_grid<F>(dims)};
  int keys = 1, power[dims];
  for (int j = 0; j < dims; j++) power[j] = keys, keys *= levels;
  t.entries.assign(size_t(keys), {-1, 0, 0});
  std::vector<u16> packed(F::grid_size);
  for (int p = 0; p < F::grid_size; p++) {
    int key = 0;
    for (int j = 0; j < dims; j++) {
      key += t.codes_of(p)[j] * power[j];
      packed[size_t(p)] |= u16(t.codes_of(p)[j] << (bits * j));
    }
    t.entries[size_t(key)].point = i16(p);
  }

  constexpr int farthest = dims * (levels - 1) * (levels - 1);
  std::vector<u8> distance(F::grid_size);
  for (int key = 0; key < keys; key++) {
    Lattice::Entry& entry = t.entries[size_t(key)];
    if (entry.point >= 0) continue;
    int code[dims];
    for (int j = 0; j < dims; j++) code[j] = key / power[j] % levels;
    bool seen[farthest + 1] = {};
    for (int p = 0; p < F::grid_size; p++) {
      int d2 = 0;
      for (int j = 0; j < dims; j++) d2 += (code[j] - t.codes_of(p)[j]) * (code[j] - t.codes_of(p)[j]);
      distance[size_t(p)] = u8(d2);
      seen[d2] = true;
    }
    entry.first = u32(t.near_codes.size());
    for (int d2 = 0, ring = 0; d2 <= farthest && ring < rings; d2++) {
      if (!seen[d2]) continue;
      ring++;
      for (int p = 0; p < F::grid_size; p++)
        if (distance[size_t(p)] == d2) {
          t.near_codes.push_back(packed[size_t(p)]);
          t.near_points.push_back(u16(p));
        }
    }
    while ((t.near_codes.size() - entry.first) % 8 != 0) {
      t.near_codes.push_back(t.near_codes.back());
      t.near_points.push_back(t.near_points.back());
    }
    entry.blocks = u16((t.near_codes.size() - entry.first) / 8);
  }
  return t;
}

}  // namespace

#define FEWBIT_LATTICE(F, rings)              \
  template <>                                 \
  const Lattice& lattice_of<F>() {            \
    static const Lattice t = build<F>(rings); \
    return t;                                 \
  }
FEWBIT_LATTICE(IQ2_XXS, 2)
FEWBIT_LATTICE(IQ2_XS, 2)
FEWBIT_LATTICE(IQ2_S, 1)
FEWBIT_LATTICE(IQ3_XXS, 2)
FEWBIT_LATTICE(IQ3_S, 3)
FEWBIT_LATTICE(IQ1_S, 3)  // and IQ1_M
#undef FEWBIT_LATTICE

}  // namespace fewbit
