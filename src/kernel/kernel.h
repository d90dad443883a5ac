// Every operation's signature, and the Kernels table that a device and a path supply.
//
// The operations are as coarse as a good GPU kernel: a table may implement one by several simple steps (CPU) or in a single launch
// (CUDA).  All pointers are device memory; shapes are row-major with the column (token) index slowest: x (cols, n) means column c
// starts at x + c * n (or c * ld).  A column's result depends neither on the other columns of the call nor on the thread count.
//
// Paths:  exact - float32 activations, KV and state, weights decoded exactly: the definition
//         fast  - activations in 8 bits as the last section of formats.md defines, the tuned kernels of the device
#pragma once
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "format/format.h"

namespace fewbit::kernel {

enum class Path { exact, fast };

// ---- activations -------------------------------------------------------------------------------------------------------------

// What an input of a multiply becomes.  The quantiser and the kernels of one table agree on how the bytes lie; nobody else looks.
enum class ActLayout : u8 {
  f32,        // plain floats
  q8_32,      // per 32: d = max|x| / 127, q = round half away (x / d), sum of q
  q8_128,     // the same with d = s 2^e: per 128 the least e, per 32 the least s in 1..16, such that no |q| exceeds 127 and sums stay exact
  q8_256,     // for weights in blocks of 256, whose integers are larger: so is e, as sums of 128 have to stay exact (cuda/act_layout.h)
  q8_per128,  // as q8_32, per 128
  token8,     // BitNet's own: one scale per column (models.md 11.3)
  f16,        // f16 times one power of two per column (cuda/half_layout.h)
};

struct Act {
  ActLayout layout = ActLayout::f32;
  int n = 0, cols = 0;   // numbers per column, columns
  void* data = nullptr;  // Kernels::act_bytes(layout, n, cols) bytes
};

// Input transform of a rotated weight (hadamard.md): x' = Had(signs * P x); as an inverse after a row lookup: signs * Had(row).
struct Rotation {
  int block = 0;               // B, a power of two
  const f32* signs = nullptr;  // (n) +-1, or nullptr: all +1
  int perm_k_heads = 0;        // P: 0 = identity, else Hk: head g * rep + r of P x is head r * Hk + g of x
  int perm_rep = 0, perm_width = 0;
};

// ---- weights -----------------------------------------------------------------------------------------------------------------

// A matrix (experts, rows, cols) in the bytes of its file.
struct HostTensor {
  std::string name;
  Type type = Type::F32;
  i64 cols = 0, rows = 0, experts = 1;
  std::span<const u8> data;    // experts * rows rows, one after another
  const f32* scale = nullptr;  // (experts) factor on the result, host memory, or nullptr
  const f32* bias = nullptr;   // (rows) added after the scale, host memory, or nullptr
};

// The same in place on a device, in the layout that the table's kernel for it wants.
struct Weight {
  std::string name;
  Type type = Type::F32;        // of the file
  const char* layout = "file";  // "file", "pq2.r16", ... (listed by `inspect`)
  const char* kernel = "";      // name of the one-column entry that will run
  int layout_id = 0;            // table's own
  ActLayout act = ActLayout::f32;
  i64 cols = 0, rows = 0, experts = 1;
  const void* data = nullptr;   // where the codes start; the meaning belongs to the table
  const void* extra = nullptr;  // table's own (split scales, partner matrix, ...)
  const f32* scale = nullptr;   // device memory
  const f32* bias = nullptr;
  f32 tensor_scale = 1;  // I2_S
  u64 bytes = 0;         // read per use (one expert: bytes / experts)
};

enum class GroupUse {
  separate,    // one weight
  same_input,  // several weights that multiply the same input (q, k, v): the table may lay them in one allocation
  glu,         // gate and up, in this order: the table may interleave their rows
  table,       // one embedding table: the layout must be one that embed() reads; matmul() too, a tied head uses the same weight
};
struct PlaceOptions {
  bool repack = true;  // false: keep the file's layout wherever a kernel for it exists (--no-repack)
  bool mapped = true;  // the bytes stay valid for the life of the weight, a CPU table may point into them
  bool dense = false;  // the form that takes the least memory, not the fastest
};

// ---- batches -----------------------------------------------------------------------------------------------------------------

// The columns of one step.  Columns of one sequence are neighbours, in order of position.  Arrays in device memory.
struct Batch {
  int cols = 0, seqs = 0;
  int max_pos = 0;                  // largest position of the step (for grid sizes)
  int max_seq_cols = 0;             // largest number of columns of one sequence
  const i32* token = nullptr;       // (cols)
  const i32* pos = nullptr;         // (cols)
  const i32* seq = nullptr;         // (cols) row of page_table, first, slot
  const i32* first = nullptr;       // (seqs + 1) first column of each sequence
  const i32* slot = nullptr;        // (seqs) slot of the recurrent state
  const i32* page_table = nullptr;  // (seqs, max_pages) KV page of tokens [p * page_tokens, ...)
  int max_pages = 0;
};

// One layer's keys or values: (page, kv_head, page_tokens, row) where a row is head_dim numbers in `type`.
struct KvCache {
  void* k = nullptr;
  void* v = nullptr;
  Type k_type = Type::F16, v_type = Type::F16;  // F32, F16, Q8_0, Q4_0
  int page_tokens = 64;
};

struct AttentionArgs {
  const f32* q = nullptr;  // (cols, ldq): n_q heads, head h at h * q_stride; with `gated` its gate stands at + head_dim
  const f32* k = nullptr;  // (cols, ldk): n_kv heads of head_dim
  const f32* v = nullptr;  // (cols, ldv)
  i64 ldq = 0, ldk = 0, ldv = 0;
  int n_q = 0, n_kv = 0, head_dim = 0, q_stride = 0;
  bool gated = false;           // out *= sigmoid(gate)
  const f32* q_norm = nullptr;  // (head_dim) RMSNorm weights before the rotation, or nullptr
  const f32* k_norm = nullptr;
  f32 eps = 0, scale = 0;
  int n_rot = 0;
  bool neox = true;           // pairs (i, i + n_rot/2); else (2i, 2i + 1)
  const f32* rope = nullptr;  // (positions, n_rot/2, 2): cos, sin with YaRN's factor inside; nullptr: no rotation
  KvCache cache;              // new keys (normed, rotated) and values are stored, then read
  f32* out = nullptr;         // (cols, n_q * head_dim)
};

struct DeltaNetArgs {
  const f32* qkv = nullptr;    // (cols, ldqkv): Q (k_heads * dim), K, V (v_heads * dim), before the convolution
  const f32* z = nullptr;      // (cols, ldz): v_heads * dim
  const f32* alpha = nullptr;  // (cols, ldab): v_heads logits
  const f32* beta = nullptr;
  i64 ldqkv = 0, ldz = 0, ldab = 0;
  int k_heads = 0, v_heads = 0, dim = 0, conv = 4;
  bool tiled = true;            // V head h uses K head h % k_heads; else h / (v_heads / k_heads)
  const f32* conv_w = nullptr;  // (channels, conv)
  const f32* dt = nullptr;      // (v_heads)
  const f32* a = nullptr;       // (v_heads), negative
  const f32* norm = nullptr;    // (dim)
  f32 eps = 0;
  f32* conv_state = nullptr;  // (slots, conv - 1, channels): last inputs, oldest first
  f32* state = nullptr;       // (slots, v_heads, dim rows of V, dim of K)
  f32* out = nullptr;         // (cols, v_heads * dim), gated and normed
};

enum class Glu { silu, relu2 };  // act(gate) * up

struct Ctx;

// ---- the table ---------------------------------------------------------------------------------------------------------------

struct Kernels {
  const char* name;  // "exact", "cpu.avx512_vnni", "cuda.sm_90"
  Path path;

  // Weights.  place() copies or points; buffers it allocates go to `owned`.  Error: this table has no kernel for the type.
  Result<std::vector<Weight>> (*place)(Ctx&, std::span<const HostTensor>, GroupUse, const PlaceOptions&, std::vector<Buffer>& owned);
  // Device bytes that place() will allocate for one tensor (0: it points into the file), for the memory plan.
  u64 (*placed_bytes)(const HostTensor&, const PlaceOptions&);
  // The kernel that would run this tensor at one column, with its layout ("gemv.PQ2_0/avx512_vnni.bits2.r16"), or the one reason for
  // refusal; looks at type and shape only, never at data.  For `inspect`.
  Result<std::string> (*describe)(const HostTensor&, const PlaceOptions&) = nullptr;
  // The activation layout that this weight takes; looks at type and shape only, like describe().
  ActLayout (*act_layout)(const HostTensor&);
  u64 (*act_bytes)(ActLayout, int n, int cols);
  // Largest scratch any operation takes for these limits; Ctx::scratch must hold it.  experts_used: of a column, 0: none.  max_n: of the
  // vectors between operations (not the logits).
  u64 (*scratch_bytes)(int max_cols, int experts_used, int max_n, int n_q_heads, int head_dim, int max_context);

  // x (cols, n) <- rows of the table, rotated back if `inverse`.
  void (*embed)(Ctx&, const Weight& table, const i32* ids, int cols, const Rotation* inverse, f32* x);

  // h = RMSNorm(x) * w  (w == nullptr: h = x).  Written as floats to `plain` if not null, and as activations to each entry of `outs`:
  // rotated if the entry has a rotation, then laid out as its act says.
  struct ActOut {
    Act* act;
    const Rotation* rotation;
  };
  void (*norm)(Ctx&, const f32* x, i64 ldx, int n, int cols, const f32* w, f32 eps, f32* plain, std::span<const ActOut> outs);

  // y = W a, times scale, plus bias; with `add` y += that.  Several weights in one call may share a launch.
  struct Product {
    const Weight* w;
    const Act* a;
    f32* y;
    i64 ldy;
    bool add;
  };
  void (*matmul)(Ctx&, std::span<const Product>);

  // h = act(gate a) * (up a)            h (cols, rows)
  void (*glu)(Ctx&, const Weight& gate, const Weight& up, const Act& a, Glu kind, f32* h);
  // h (count) = act(gate) * up: for a pair whose weights want different activations, after two products.
  void (*act_mul)(Ctx&, const f32* gate, const f32* up, Glu kind, i64 count, f32* h);

  void (*attention)(Ctx&, const Batch&, const AttentionArgs&);
  void (*delta_net)(Ctx&, const Batch&, const DeltaNetArgs&);

  // Router: softmax over all experts, the k largest (lowest index on ties), renormalised by max(sum, 2^-14), times `scale`.
  void (*route)(Ctx&, const f32* logits, int experts, int k, int cols, f32 scale, i32* ids, f32* weights);  // ids, weights (cols, k)
  // h (cols * k, rows): entry e = column e / k with expert ids[e]
  void (*moe_glu)(Ctx&, const Weight& gate, const Weight& up, const Act& a, const i32* ids, int k, Glu kind, f32* h);
  // x (cols, rows) += sum over slots j in order of weights[c][j] * (down_{ids[c][j]} a[c * k + j])
  void (*moe_down)(Ctx&, const Weight& down, const Act& a, const i32* ids, const f32* weights, int k, f32* x);
  // x (cols, n) += sigmoid(gate[c]) * y (cols, n);  gate == nullptr: factor 1
  void (*add_gated)(Ctx&, f32* x, const f32* y, const f32* gate, int n, int cols);

  // to (count, n) <- columns index[i] of from
  void (*gather)(Ctx&, const f32* from, const i32* index, int count, int n, f32* to);
  // ids (cols): index of the largest of n, the lowest on ties
  void (*argmax)(Ctx&, const f32* logits, int n, int cols, i32* ids);
};

// One launch or operation as the launch lister records it.
struct Launch {
  std::string kernel, shape;
  u64 bytes = 0;  // weights, state and KV that must be read
  f64 time_us = 0;
};

// What an operation runs on.
struct Ctx {
  Device* device = nullptr;
  const Kernels* k = nullptr;
  ThreadPool* pool = nullptr;  // CPU
  void* stream = nullptr;      // cudaStream_t
  void* scratch = nullptr;     // scratch_bytes of memory on the device
  u64 scratch_bytes = 0;
  std::vector<Launch>* launches = nullptr;  // when set, operations record themselves
};

// Error: this device has no table for the path.
Result<const Kernels*> kernels_for(Device& device, Path path);

}  // namespace fewbit::kernel
