// The activations of kernel.h on a CPU: layout q8_32 and token8 are records (record.h), f32 is (cols, n) plain floats.
#pragma once
#include "kernel/kernel.h"
#include "kernel/layout/record.h"

namespace fewbit::kernel::cpu {

inline Q8Record act_column(const Act& a, i64 c) { return {static_cast<const u8*>(a.data) + u64(c) * act_record_bytes(a.n), a.n}; }

u64 act_bytes(ActLayout layout, int n, int cols);

// x (n) -> the record at `record` (act_record_bytes(n), 4-byte aligned at least), padding included.  Same bytes on every instruction set.
using QuantizeFn = void (*)(const f32* x, i64 n, void* record);
void quantize_q8_32_scalar(const f32* x, i64 n, void* record);
QuantizeFn quantize_q8_32();  // the best for this processor
// BitNet's own rule (models.md 11.3): q = clamp(round_half_even(x * s), -128, 127) with s = 127 / max(max|x|, 1e-5), d = 1 / s.
void quantize_token8(const f32* x, i64 n, void* record);

}  // namespace fewbit::kernel::cpu
