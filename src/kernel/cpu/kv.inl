// Rows of a KV cache: how a register gets its elements [d, d + reg_lanes), and how a row is stored.
// Types with blocks get their scales as floats from a table that scales() fills beforehand: converting an f16 and spreading it costs
// more than the elements it belongs to.

template <Type T>
struct Kv;

struct NoScales {
  static void scales(const u8*, i64, int, int, f32*) {}
};
template <>
struct Kv<Type::F32> : NoScales {
  static constexpr bool convert = false;
  static constexpr i64 bytes(int n) { return i64(n) * 4; }
  static inline Reg get(const u8* row, int d, const f32*) { return reg_load(reinterpret_cast<const f32*>(row) + d); }
};
template <>
struct Kv<Type::F16> : NoScales {
  static constexpr bool convert = true;
  static constexpr i64 bytes(int n) { return i64(n) * 2; }
  static inline Reg get(const u8* row, int d, const f32*) { return reg_load_f16(reinterpret_cast<const u16*>(row) + d); }
};

// Blocks of 32 elements that begin with an f16 scale: scale[t * n / 32 + i] of block i of row t.
template <int block_bytes>
struct BlockScales {
  static constexpr bool convert = true;
  static constexpr i64 bytes(int n) { return i64(n) / 32 * block_bytes; }
  static void scales(const u8* rows, i64 row_bytes, int n, int count, f32* scale) {
    alignas(64) u16 half[16 * max_head_dim / 32];
    int m = 0;
    for (int t = 0; t < count; t++, rows += row_bytes) {
      for (int i = 0; i < n / 32; i++) half[m++] = load_le<u16>(rows + i * block_bytes);
    }
    int i = 0;
    for (; i + 16 <= m; i += 16) store(scale + i, load_f16(half + i));
    for (; i < m; i++) scale[i] = half_to_f32(half[i]);
  }
};
template <>
struct Kv<Type::Q8_0> : BlockScales<34> {  // f16 d, 32 int8
  static inline Reg get(const u8* row, int d, const f32* scale) {
    return reg_mul(reg_load_i8(reinterpret_cast<const i8*>(row) + d / 32 * 34 + 2 + d % 32), reg_set1(scale[d / 32]));
  }
};
template <>
struct Kv<Type::Q4_0> : BlockScales<18> {  // f16 d, 16 bytes: elements 0..15 low nibbles, 16..31 high
  static inline Reg get(const u8* row, int d, const f32* scale) {
    const u8* q = row + d / 32 * 18 + 2 + d % 16;
#if FEWBIT_VEC == 128
    int shift = d & 16 ? 4 : 0;
    Reg level;
    for (int i = 0; i < 4; i++) level[i] = f32((q[i] >> shift & 15) - 8);
#else
#if FEWBIT_VEC == 512
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(q));
#else
    const __m128i x = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(q));
#endif
    const __m128i n = _mm_and_si128(d & 16 ? _mm_srli_epi16(x, 4) : x, _mm_set1_epi8(15));
    const __m128i c = _mm_sub_epi8(n, _mm_set1_epi8(8));
#if FEWBIT_VEC == 512
    const Reg level = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(c));
#else
    const Reg level = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(c));
#endif
#endif
    return reg_mul(level, reg_set1(scale[d / 32]));
  }
};

static void store_block_nan(u8* b, int bytes) {
  std::memset(b, 0, size_t(bytes));
  store_le<u16>(b, 0x7e00);
}

// formats.md 4.6: d = max|x| / 127, q = round half away (x * (1 / d)), d kept as f16.
static void store_q8_0(u8* b, const f32* x) {
  f32 m = largest_abs(x, 32), d = m / 127.0f;
  if (!(d <= 65504.0f)) return store_block_nan(b, 34);
  store_le<u16>(b, f32_to_half(d));
  V16 f = set1(d > 0x1p-128f ? 1.0f / d : 0.0f);
  for (int i = 0; i < 32; i += 16) store_i8(reinterpret_cast<i8*>(b) + 2 + i, round_away(load(x + i) * f));
}

// formats.md 4.2: d = (the element of largest magnitude) / -8, q = min(15, trunc(x / d + 8.5)).
static void store_q4_0(u8* b, const f32* x) {
  f32 m = largest_abs(x, 32);
  if (!(m <= 65504.0f * 8)) return store_block_nan(b, 18);
  int at = 0;
  while (at < 31 && std::fabs(x[at]) != m) at++;
  f32 d = (m > 0 ? x[at] : 0.0f) / -8.0f;
  store_le<u16>(b, f32_to_half(d));
  i8 q[32];
  V16 f = set1(std::fabs(d) > 0x1p-128f ? 1.0f / d : 0.0f), half = set1(8.5f), top = set1(15.0f);
  for (int i = 0; i < 32; i += 16) store_i8(q + i, trunc_positive(min(load(x + i) * f + half, top)));
  for (int i = 0; i < 16; i++) b[2 + i] = u8(q[i] | q[i + 16] << 4);
}

static void store_kv(Type type, void* row, const f32* x, int n) {
  u8* to = static_cast<u8*>(row);
  switch (type) {
    case Type::F32:
      std::memcpy(to, x, size_t(n) * 4);
      return;
    case Type::F16:
      for (int i = 0; i < n; i += 16) store_f16(reinterpret_cast<u16*>(to) + i, load(x + i));
      return;
    case Type::Q8_0:
      for (int i = 0; i < n; i += 32) store_q8_0(to + i / 32 * 34, x + i);
      return;
    case Type::Q4_0:
      for (int i = 0; i < n; i += 32) store_q4_0(to + i / 32 * 18, x + i);
      return;
    default:
      FEWBIT_CHECK(false, "KV type %u", unsigned(type));
  }
}
