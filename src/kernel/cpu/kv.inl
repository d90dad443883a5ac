// Rows of a KV cache: how 16 neighbouring elements become a V16, and how a row is stored.

template <Type T>
struct Kv;

template <>
struct Kv<Type::F32> {
  static i64 bytes(int n) { return i64(n) * 4; }
  static inline V16 load16(const u8* row, int d) { return load(reinterpret_cast<const f32*>(row) + d); }
};
template <>
struct Kv<Type::F16> {
  static i64 bytes(int n) { return i64(n) * 2; }
  static inline V16 load16(const u8* row, int d) { return load_f16(reinterpret_cast<const u16*>(row) + d); }
};
static inline V16 block_scale(const u8* b) {
#if FEWBIT_VEC == 128
  return set1(half_to_f32(load_le<u16>(b)));
#else
  return set1(_cvtsh_ss(load_le<u16>(b)));
#endif
}
template <>
struct Kv<Type::Q8_0> {  // 34 bytes: f16 d, 32 int8
  static i64 bytes(int n) { return i64(n) / 32 * 34; }
  static inline V16 load16(const u8* row, int d) {
    const u8* b = row + d / 32 * 34;
    return load_i8(reinterpret_cast<const i8*>(b) + 2 + (d & 16)) * block_scale(b);
  }
};
template <>
struct Kv<Type::Q4_0> {  // 18 bytes: f16 d, 16 bytes: low nibbles first
  static i64 bytes(int n) { return i64(n) / 32 * 18; }
  static inline V16 load16(const u8* row, int d) {
    const u8* b = row + d / 32 * 18;
    V16 lo, hi;
    load_i4(b + 2, &lo, &hi);
    return (d & 16 ? hi : lo) * block_scale(b);
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
