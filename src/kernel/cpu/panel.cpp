#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernel/cpu/tile.h"
#include "kernel/layout/record.h"

namespace fewbit::kernel::cpu {

static u64 padded(u64 bytes) { return (bytes + 63) / 64 * 64; }
// Starts of a column per group.
static int starts_of(const PanelSpec& s) { return s.run ? (8 + s.run - 1) / s.run : s.halves && !s.mixed ? 2 : 1; }

u64 panel_bytes(const PanelSpec& s, int cols, i64 n) {
  if (!s.quads) return 0;
  const u64 g = u64(act_groups(n)) * u64(cols), per = s.halves ? 2 : 1;
  return padded(cols > 1 || s.mixed ? g * 32 : 0) + padded(g * 4) + padded(g * 4 * u64(starts_of(s))) +
         padded(g * 4 * per) * u64((s.sums != PanelSums::none) + s.pairs);
}

Panel make_panel(const PanelSpec& s, std::span<const void* const> cols, i64 n, u8* memory) {
  Panel p;
  p.cols = int(cols.size());
  FEWBIT_CHECK(p.cols <= max_panel, "%d columns in a panel", p.cols);
  for (int c = 0; c < p.cols; c++) p.col[c] = cols[size_t(c)];
  if (!s.quads) return p;
  const i64 groups = act_groups(n);
  const int C = p.cols, per = s.halves ? 2 : 1;
  auto array = [&](u64 bytes) {
    u8* begin = memory;
    memory += padded(bytes);
    return begin;
  };
  const u64 g = u64(groups) * u64(C);
  if (C == 1 && !s.mixed) {
    p.q = Q8Record(cols[0], n).q;
  } else {
    u8* q = array(g * 32);
    for (int c = 0; c < C; c++) {
      const i8* from = Q8Record(cols[size_t(c)], n).q;
      u8* to = q + 4 * c;
      if (!s.mixed) {
        for (i64 k = 0; k < groups * 8; k++) std::memcpy(to + k * 4 * C, from + 4 * k, 4);
      } else {
        for (i64 k = 0; k < groups * 8; k++, to += 4 * C) {
          const i8* pair = from + k / 8 * 32 + k % 8 * 2;
          std::memcpy(to, pair, 2);
          std::memcpy(to + 2, pair + 16, 2);
        }
      }
    }
    p.q = reinterpret_cast<const i8*>(q);
  }
  f32* a = reinterpret_cast<f32*>(array(g * 4));
  i32* start = reinterpret_cast<i32*>(array(g * 4 * u64(starts_of(s))));
  f32* as = s.sums != PanelSums::none ? reinterpret_cast<f32*>(array(g * 4 * u64(per))) : nullptr;
  i16* pairs = s.pairs ? reinterpret_cast<i16*>(array(g * 4 * u64(per))) : nullptr;
  f32 scale[8];
  for (int f = 0; f < s.groups; f++) scale[f] = 1.0f / f32(1 << s.shift[f]);
  for (int c = 0; c < C; c++) {
    const Q8Record r(cols[size_t(c)], n);
    for (i64 i = 0; i < groups; i++) {
      const int f = int(i % s.groups);
      a[i * C + c] = r.d[i] * scale[f];
      const i32 sum[2] = {r.sum[2 * i], r.sum[2 * i + 1]};
      const f32 factor = s.sums == PanelSums::scaled ? r.d[i] : f32(1 << s.shift[f]);
      if (s.halves) {
        for (int h = 0; h < 2; h++) {
          if (!s.run && !s.mixed) start[(2 * i + h) * C + c] = -s.zero * sum[h] * (1 << s.shift[f]);
          if (as) as[(2 * i + h) * C + c] = factor * f32(sum[h]);
        }
      } else {
        if (!s.run) start[i * C + c] = -s.zero * (sum[0] + sum[1]) * (1 << s.shift[f]);
        if (as) as[i * C + c] = factor * f32(sum[0] + sum[1]);
      }
    }
  }
  if (s.run) {
    const i64 runs = starts_of(s);
    for (i64 i = 0; i < groups; i++) {
      const int zero = s.zero * (1 << s.shift[i % s.groups]);
      for (i64 run = 0; run < runs; run++) {
        for (int c = 0; c < C; c++) {
          int sum[2] = {0, 0};
          for (i64 v = run * s.run; v < std::min<i64>(8, (run + 1) * s.run); v++) {
            const i8* q = p.q + ((8 * i + v) * C + c) * 4;
            sum[0] += q[0] + q[1];
            sum[1] += q[2] + q[3];
          }
          start[(i * runs + run) * C + c] = i32(u32(u16(-zero * sum[0])) | u32(u16(-zero * sum[1])) << 16);
        }
      }
    }
  }
  if (pairs) {
    for (int c = 0; c < C; c++) {
      const i8* q = Q8Record(cols[size_t(c)], n).q;
      for (i64 i = 0; i < groups * 4; i++) {  // eights
        int sum = 0;
        for (int j = 0; j < 8; j++) sum += q[8 * i + j];
        pairs[(i / 2 * C + c) * 2 + i % 2] = i16(-2 * sum);
      }
    }
    p.pairs = reinterpret_cast<i32*>(pairs);
  }
  p.a = a;
  p.start = start;
  p.as = as;
  return p;
}

}  // namespace fewbit::kernel::cpu
