// Lanes: LANES groups of weights searched side by side, one per vector lane.  Every lane does exactly what a scalar search of its
// group would do, operation by operation, so the width changes no bit.  Included once per instruction set, inside its namespace.

using V = f32 __attribute__((vector_size(4 * LANES)));
using I = i32 __attribute__((vector_size(4 * LANES)));

#define INLINE [[gnu::always_inline]] static inline

INLINE V all(f32 v) { return v - V{}; }  // v - 0 keeps a negative zero, v + 0 would not
INLINE V pick(I mask, V yes, V no) { return mask ? yes : no; }
INLINE V least(V a, V b) { return a < b ? a : b; }
INLINE V largest(V a, V b) { return a > b ? a : b; }
INLINE V absolute(V a) { return V(I(a) & 0x7fffffff); }
// Nearest integer, ties to even, of v held to [lo, hi] (NaN becomes lo).
INLINE V rint_to(V v, f32 lo, f32 hi) { return (least(largest(v, all(lo)), all(hi)) + 12582912.0f) - 12582912.0f; }

INLINE bool any(I mask) {
#if LANES == 8
  return __builtin_ia32_movmskps256(V(mask)) != 0;
#elif defined(__SSE2__)
  return __builtin_ia32_movmskps(V(mask)) != 0;
#else
  i32 m = 0;
  for (int l = 0; l < LANES; l++) m |= mask[l];
  return m != 0;
#endif
}

// n elements of up to LANES groups, element-major: at(e)[lane].  Lanes beyond the groups hold zeros.
template <int n>
struct Groups {
  V v[n];
  V& operator[](int e) { return v[e]; }
  const V& operator[](int e) const { return v[e]; }
};

// Groups first .. first + count - 1 of consecutive groups of n at x.
template <int n>
INLINE void load_groups(Groups<n>& g, const f32* x, int count) {
  f32* p = reinterpret_cast<f32*>(g.v);
  if (count < LANES) std::memset(p, 0, sizeof g.v);
  for (int l = 0; l < (count < LANES ? count : LANES); l++)
    for (int e = 0; e < n; e++) p[e * LANES + l] = x[l * n + e];
}
// Codes back to bytes, group after group.
template <int n>
INLINE void store_codes(const Groups<n>& g, u8* codes, int count) {
  const f32* p = reinterpret_cast<const f32*>(g.v);
  for (int l = 0; l < (count < LANES ? count : LANES); l++)
    for (int e = 0; e < n; e++) codes[l * n + e] = u8(i32(p[e * LANES + l]));
}
INLINE void store_lanes(V v, f32* out, int count) {
  for (int l = 0; l < (count < LANES ? count : LANES); l++) out[l] = v[l];
}
