// The grids of the IQ formats as sets to search in: which code vectors are points, and which points lie near the others.
// formats.md 5.6, 5.7
#pragma once
#include <vector>

#include "base/types.h"

namespace fewbit {

struct Lattice {
  int dims;    // elements of a point: 8 or 4
  int levels;  // codes 0 .. levels - 1 per element: 3 or 8

  // By key, the sum over j of code_j * levels^j: the point with these codes, or -1 and its neighbours.
  struct Entry {
    i16 point;
    u16 blocks;  // neighbours first, first + 1, ... in blocks of 8; the last one is repeated to fill its block
    u32 first;
  };
  std::vector<Entry> entries;

  // Neighbours in order of (squared code distance, point), all of the few least distances.
  std::vector<u16> near_codes;   // code j in bits 2j.. (3 levels) or 3j.. (8 levels)
  std::vector<u16> near_points;  // index in the grid
  std::vector<u8> codes;         // (points, dims)

  const u8* codes_of(int point) const { return codes.data() + size_t(point * dims); }
};

// Made on first use (some 10 ms each); safe from any thread.
template <class F>
const Lattice& lattice_of();

}  // namespace fewbit
