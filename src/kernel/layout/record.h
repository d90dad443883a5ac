// How an 8-bit activation lies on a CPU.  formats.md, last section.
//
// Layout q8_32 (and token8, which differs only in that all groups of a column share one d): one record per column, padded with zeros
// to a multiple of 256 inputs so that kernels may read whole super-blocks.  G = groups(n) = 8 ceil(n / 256) groups of 32 inputs:
//
//   d      f32 (G)      q = round_half_away(x / d),  d = max|x| / 127
//   sum    i16 (G, 2)   sums of q over the two halves of a group (16 inputs each)
//   q      i8  (G, 32)
//
// so a record takes 40 G bytes, a multiple of 64, and every array starts on 32 bytes when the record does on 64.
// A group with an infinity or a NaN has d = NaN and q = 0: the results of the column become NaN, nothing else happens.
#pragma once
#include "base/bits.h"

namespace fewbit::kernel::cpu {

inline constexpr i64 act_groups(i64 n) { return div_up(n, 256) * 8; }
inline constexpr u64 act_record_bytes(i64 n) { return u64(act_groups(n)) * 40; }

// One column's record.
struct Q8Record {
  const f32* d;
  const i16* sum;  // (G, 2)
  const i8* q;
  Q8Record(const void* record, i64 n)
      : d(static_cast<const f32*>(record)),
        sum(reinterpret_cast<const i16*>(d + act_groups(n))),
        q(reinterpret_cast<const i8*>(sum + 2 * act_groups(n))) {}
};

}  // namespace fewbit::kernel::cpu
