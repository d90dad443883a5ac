// Faults that a kernel could have, made by changing what the kernel under test is given while the reference keeps the truth.
#pragma once
#include <span>

#include "format/format.h"

namespace fewbit::kernel {

enum class Fault {
  none,
  swapped_fields,      // neighbouring codes change places
  wrong_sign,          // one sign bit (of a weight, or of a scale where weights have none)
  dropped_correction,  // the zero point or the minimum does not count
  scale_off_by_one,    // a block is scaled like the next one
  wrong_grid_row,      // one grid index, or one code, off by one
  swapped_nibbles,     // low and high half of one byte of codes, indices or scales
  stale_column,        // a column keeps its neighbour's input
  skipped_tail,        // the last inputs do not count
  skipped_row,         // the last row is not written
  count
};
const char* fault_name(Fault f);

// Changes the blocks of a tensor of rows of n elements (I2_S: its codes).  False: the type has no such thing.
bool mutate_blocks(Fault fault, Type type, std::span<u8> bytes, i64 n, i64 rows);

// What a kernel that dropped the zero point (or the minimum) of every block would have added to row r: sum over k of extra[k] * x[k].
// False: the type has neither.
bool dropped_correction(Type type, std::span<const u8> tensor, i64 row, i64 n, std::span<f64> extra);

}  // namespace fewbit::kernel
