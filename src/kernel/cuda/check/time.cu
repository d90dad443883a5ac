// Timings on cold weights, by graph replays: multiplies by type, shape and width; the whole chain of a 27B token; the steps between.
#include <algorithm>

#include "kernel/cuda/check/check.h"
#include "kernel/cuda/common.cuh"
#include "kernel/cuda/half_layout.h"
#include "kernel/cuda/layout.h"
#include "kernel/cuda/matmul_half.h"
#include "kernel/cuda/ops.h"

namespace fewbit::kernel::cuda::check {

namespace {

// Random bits everywhere; scales stay finite because bit 14 of every 16 is cleared where they stand (codes may be anything).
__global__ void fill_kernel(u32* p, u64 n, u32 seed) {
  for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += u64(gridDim.x) * blockDim.x) {
    u64 x = i * 0x9e3779b97f4a7c15ull + seed;
    x ^= x >> 29, x *= 0xbf58476d1ce4e5b9ull, x ^= x >> 32;
    p[i] = u32(x);
  }
}

struct Timer {
  Rig& rig;
  cudaStream_t stream;
  cudaEvent_t a, b;
  explicit Timer(Rig& r) : rig(r), stream(static_cast<cudaStream_t>(r.gpu->stream())) {
    FEWBIT_CUDA_CHECK(cudaEventCreate(&a));
    FEWBIT_CUDA_CHECK(cudaEventCreate(&b));
  }
  ~Timer() { cudaEventDestroy(a), cudaEventDestroy(b); }
  // Median microseconds of one replay of what `work` enqueues.
  template <class F>
  f64 median_us(F&& work, int replays = 9) {
    rig.gpu->begin_record();
    work();
    std::unique_ptr<Graph> graph = rig.gpu->end_record();
    graph->launch();
    graph->launch();
    std::vector<f64> us;
    for (int i = 0; i < replays; i++) {
      FEWBIT_CUDA_CHECK(cudaEventRecord(a, stream));
      graph->launch();
      FEWBIT_CUDA_CHECK(cudaEventRecord(b, stream));
      FEWBIT_CUDA_CHECK(cudaEventSynchronize(b));
      float ms = 0;
      FEWBIT_CUDA_CHECK(cudaEventElapsedTime(&ms, a, b));
      us.push_back(ms * 1e3);
    }
    std::sort(us.begin(), us.end());
    return us[us.size() / 2];
  }
};

// Weights of random bits, straight in their device layout.
struct Pool {
  Buffer memory;
  u64 used = 0;
  Pool(Rig& rig, u64 bytes) : memory(rig.buffer(bytes)) {
    fill_kernel<<<2048, 256, 0, static_cast<cudaStream_t>(rig.gpu->stream())>>>(memory.as<u32>(), bytes / 4, 1);
    FEWBIT_CUDA_CHECK(cudaGetLastError());
  }
  Weight take(Type type, i64 rows, i64 cols, bool pair = false, i64 experts = 1) {
    Weight w;
    w.type = type, w.rows = rows, w.cols = cols, w.experts = experts, w.layout_id = type_layout(type, dense_chosen(type)).layout;
    HostTensor t;
    t.type = type, t.rows = rows, t.cols = cols, t.experts = experts;
    const bool half = half_wanted(t);
    if (half) w.layout_id = layout_half;
    const u64 bytes = half                             ? HalfUnits(pair ? 2 * rows : rows, cols).bytes()
                      : w.layout_id >= layout_rows_f32 ? u64(rows * cols * 2)
                                                       : Units(w.layout_id, pair ? 2 * rows : rows, cols).bytes() * u64(experts);
    if (used + bytes > memory.bytes()) used = 0;  // cold long since
    FEWBIT_CHECK(bytes <= memory.bytes());
    w.data = memory.as<u8>() + used;
    if (pair) w.extra = w.data;
    w.bytes = pair ? bytes / 2 : bytes;
    used += (bytes + 255) / 256 * 256;
    return w;
  }
};

struct Input {
  Buffer x, memory;
  Act act;
  Input(Rig& rig, int n, int cols, ActLayout layout = ActLayout::q8_32) {
    Random random(3);
    x = rig.up(random.normals(size_t(n) * cols));
    memory = rig.buffer(rig.ctx.k->act_bytes(layout, n, cols));
    act = {layout, n, cols, memory.data()};
    const Kernels::ActOut out{&act, nullptr};
    rig.ctx.k->norm(rig.ctx, x.as<f32>(), n, n, cols, nullptr, 0, nullptr, {&out, 1});
  }
};

// `list` is empty or names `word` between commas.
bool named(const std::string& list, const std::string& word) {
  return list.empty() || ("," + list + ",").find("," + word + ",") != std::string::npos;
}

void time_matvec(Rig& rig, const TimeOptions& o) {
  const bool all = o.what == "matvec";
  Timer timer(rig);
  Pool pool(rig, u64(2600) << 20);
  struct Shape {
    i64 rows, cols;
    bool pair;
  };
  const Shape shapes[] = {{17408, 5120, true}, {16384, 5120, false}, {5120, 17408, false}, {5120, 6144, false}, {248320, 5120, false}};
  std::vector<Type> types = {Type::PQ2_0, Type::PTQ1_0,  Type::Q1_0,   Type::Q2_0,  Type::IQ1_S, Type::IQ1_M, Type::IQ2_XXS, Type::IQ2_XS,
                             Type::IQ2_S, Type::IQ3_XXS, Type::IQ3_S,  Type::Q2_K,  Type::Q3_K,  Type::Q4_0,  Type::Q4_K,    Type::Q6_K,
                             Type::Q8_0,  Type::IQ4_NL,  Type::IQ4_XS, Type::MXFP4, Type::F16,   Type::BF16};
  for (Type type : types)
    for (const Shape& s : shapes) {
      if (!named(o.types, type_name(type))) continue;
      const bool main_type = type == Type::PQ2_0 || type == Type::PTQ1_0 || type == Type::Q1_0,
                 rows = act_of(rig, type, s.rows, s.cols) == ActLayout::f32;
      if (rows && !s.pair) continue;
      if (!main_type && !all && s.rows != 248320 && s.rows != 17408) continue;
      std::vector<int> widths = main_type ? std::vector<int>{1, 2, 4, 8} : std::vector<int>{1, 8};
      if (s.pair) widths.push_back(512);
      for (int cols : widths) {
        if (!named(o.cols, std::to_string(cols))) continue;
        Input in(rig, int(s.cols), cols, act_of(rig, type, s.rows, s.cols));
        Buffer y = rig.buffer(u64(s.rows) * cols * 4);
        const Weight probe = pool.take(type, s.rows, s.cols, s.pair && !rows);
        const u64 bytes = s.pair ? 2 * probe.bytes : probe.bytes;
        const int copies = cols > 64 ? 1 : int(std::max<u64>(1, (u64(400) << 20) / bytes));
        const f64 us = timer.median_us([&] {
          for (int i = 0; i < copies; i++) {
            const Weight w = pool.take(type, s.rows, s.cols, s.pair && !rows);
            if (s.pair) {
              rig.ctx.k->glu(rig.ctx, w, rows ? pool.take(type, s.rows, s.cols) : w, in.act, Glu::silu, y.as<f32>());
            } else {
              const Kernels::Product p{&w, &in.act, y.as<f32>(), s.rows, false};
              rig.ctx.k->matmul(rig.ctx, {&p, 1});
            }
          }
        }) / copies;
        const i64 outs = s.pair ? 2 * s.rows : s.rows;
        const f64 file = f64(row_bytes(type, s.cols)) * f64(outs);
        std::printf(
            "{\"bench\":\"matvec\",\"type\":\"%s\",\"shape\":\"%lldx%lld\",\"cols\":%d,\"us\":%.2f,\"device_tb_s\":%.3f,\"file_tb_s\":%.3f,"
            "\"tops\":%.1f}\n",
            type_name(type), (long long)outs, (long long)s.cols, cols, us, f64(bytes) / us * 1e-6, file / us * 1e-6,
            2.0 * f64(outs) * f64(s.cols) * cols / us * 1e-6);
        std::fflush(stdout);
      }
    }
}

// One decoded token of bonsai-27b: the multiplies alone, then with the steps between them.
void time_chain(Rig& rig, const TimeOptions& o) {
  Timer timer(rig);
  for (Type type : {Type::PQ2_0, Type::Q1_0}) {
    if (!named(o.types, type_name(type))) continue;
    Pool pool(rig, type == Type::PQ2_0 ? u64(7400) << 20 : u64(4000) << 20);
    for (int cols : {1, 8}) {
      if (!named(o.cols, std::to_string(cols))) continue;
      Random random(4);
      const ActLayout act = act_of(rig, type);
      Input a5(rig, 5120, cols, act), a6(rig, 6144, cols, act), a17(rig, 17408, cols, act), f5(rig, 5120, cols, ActLayout::f32);
      Buffer x = rig.up(random.normals(size_t(5120) * cols)), h = rig.buffer(u64(17408) * cols * 4),
             qkv = rig.buffer(u64(17000) * cols * 4), z = rig.buffer(u64(6144) * cols * 4), ab = rig.buffer(u64(96) * cols * 4);
      Buffer logits = rig.buffer(u64(248320) * cols * 4), signs = rig.up(std::vector<f32>(17408, 1.0f)),
             w = rig.up(std::vector<f32>(17408, 1.0f)), ids = rig.buffer(4096);
      Rotation r;
      r.block = 1024, r.signs = signs.as<f32>();
      for (int steps = 0; steps < 3; steps++) {  // 0: the multiplies, 1: with norms and activations, 2: with DeltaNet too
        pool.used = 0;
        DeltaNetArgs d;
        Buffer conv_w, dt, na, state, window, dout;
        std::vector<i32> first, slot, seq;
        for (int c = 0; c < cols; c++) first.push_back(c), slot.push_back(c), seq.push_back(c);
        first.push_back(cols);
        Buffer bfirst = rig.up(first), bslot = rig.up(slot), bseq = rig.up(seq);
        if (steps == 2) {
          conv_w = rig.up(random.normals(10240 * 4)), dt = rig.up(random.normals(48)), na = rig.up(std::vector<f32>(48, -0.5f));
          state = rig.buffer(u64(48) * 48 * 128 * 128 * 4 * cols), window = rig.buffer(u64(48) * 3 * 10240 * 4 * cols),
          dout = rig.buffer(u64(6144) * cols * 4);
          d.qkv = qkv.as<f32>(), d.z = z.as<f32>(), d.alpha = ab.as<f32>(), d.beta = ab.as<f32>() + 48, d.ldqkv = 10240, d.ldz = 6144,
          d.ldab = 96;
          d.k_heads = 16, d.v_heads = 48, d.dim = 128, d.conv_w = conv_w.as<f32>(), d.dt = dt.as<f32>(), d.a = na.as<f32>(),
          d.norm = w.as<f32>(), d.eps = 1e-6f, d.out = dout.as<f32>();
        }
        u64 bytes = 0;
        auto mm = [&](i64 rows, const Input& in, f32* y, bool add) {
          const Weight m = pool.take(type, rows, in.act.n);
          bytes += m.bytes;
          const Kernels::Product p{&m, &in.act, y, rows, add};
          rig.ctx.k->matmul(rig.ctx, {&p, 1});
        };
        auto norm = [&](const f32* from, Input& in, bool weights) {
          if (!steps) return;
          const Kernels::ActOut out[2] = {{&in.act, &r}, {&f5.act, nullptr}};
          rig.ctx.k->norm(rig.ctx, from, in.act.n, in.act.n, cols, weights ? w.as<f32>() : nullptr, 1e-6f, nullptr,
                          {out, size_t(weights ? 2 : 1)});
        };
        const f64 us = timer.median_us(
            [&] {
              bytes = 0;
              for (int layer = 0; layer < 64; layer++) {
                norm(x.as<f32>(), a5, true);
                const Weight q = pool.take(type, 10240, 5120), zz = pool.take(type, 6144, 5120), al = pool.take(Type::BF16, 48, 5120),
                             be = pool.take(Type::BF16, 48, 5120);
                bytes += q.bytes + zz.bytes;
                Kernels::Product p[4] = {{&q, &a5.act, qkv.as<f32>(), 10240, false},
                                         {&zz, &a5.act, z.as<f32>(), 6144, false},
                                         {&al, &f5.act, ab.as<f32>(), 96, false},
                                         {&be, &f5.act, ab.as<f32>() + 48, 96, false}};
                rig.ctx.k->matmul(rig.ctx, {p, size_t(steps ? 4 : 2)});
                if (steps == 2 && layer % 4 != 3) {
                  const int l = layer / 4 * 3 + layer % 4;
                  d.state = state.as<f32>() + u64(l) * cols * 48 * 128 * 128, d.conv_state = window.as<f32>() + u64(l) * cols * 3 * 10240;
                  Batch b;
                  b.cols = cols, b.seqs = cols, b.max_seq_cols = 1, b.first = bfirst.as<i32>(), b.slot = bslot.as<i32>(),
                  b.seq = bseq.as<i32>();
                  rig.ctx.k->delta_net(rig.ctx, b, d);
                }
                norm(h.as<f32>(), a6, false);
                mm(5120, a6, x.as<f32>(), true);
                norm(x.as<f32>(), a5, true);
                const Weight g = pool.take(type, 17408, 5120, true);
                bytes += 2 * g.bytes;
                rig.ctx.k->glu(rig.ctx, g, g, a5.act, Glu::silu, h.as<f32>());
                norm(h.as<f32>(), a17, false);
                mm(5120, a17, x.as<f32>(), true);
              }
              norm(x.as<f32>(), a5, true);
              mm(248320, a5, logits.as<f32>(), false);
              if (steps) rig.ctx.k->argmax(rig.ctx, logits.as<f32>(), 248320, cols, ids.as<i32>());
            },
            5);
        std::printf("{\"bench\":\"chain\",\"type\":\"%s\",\"cols\":%d,\"steps\":%d,\"ms\":%.3f,\"weights_gb\":%.3f,\"tb_s\":%.3f}\n",
                    type_name(type), cols, steps, us * 1e-3, f64(bytes) * 1e-9, f64(bytes) / us * 1e-6);
        std::fflush(stdout);
      }
    }
  }
}

void time_steps(Rig& rig) {
  Timer timer(rig);
  Random random(6);
  constexpr int times = 50;
  for (int cols : {1, 8, 512}) {
    Buffer x = rig.up(random.normals(size_t(17408) * cols)), w = rig.up(random.normals(17408)),
           signs = rig.up(std::vector<f32>(17408, 1.0f));
    Rotation r;
    r.block = 1024, r.signs = signs.as<f32>();
    for (int n : {5120, 6144, 17408}) {
      Input in(rig, n, cols, ActLayout::q8_128);
      const Kernels::ActOut out{&in.act, &r};
      const f64 us = timer.median_us([&] {
        for (int i = 0; i < times; i++)
          rig.ctx.k->norm(rig.ctx, x.as<f32>(), n, n, cols, n == 5120 ? w.as<f32>() : nullptr, 1e-6f, nullptr, {&out, 1});
      }) / times;
      std::printf("{\"bench\":\"norm\",\"n\":%d,\"cols\":%d,\"us\":%.2f}\n", n, cols, us);
    }
    {  // its gates, alpha and beta
      Pool pool(rig, u64(2) << 20);
      const Weight alpha = pool.take(Type::BF16, 48, 5120), beta = pool.take(Type::BF16, 48, 5120);
      const Act act{ActLayout::f32, 5120, cols, x.data()};
      Buffer y = rig.buffer(u64(96) * cols * 4);
      const Kernels::Product p[2] = {{&alpha, &act, y.as<f32>(), 96, false}, {&beta, &act, y.as<f32>() + 48, 96, false}};
      const f64 us = timer.median_us([&] {
        for (int i = 0; i < times; i++) rig.ctx.k->matmul(rig.ctx, {p, 2});
      }) / times;
      std::printf("{\"bench\":\"rows\",\"type\":\"BF16\",\"shape\":\"2 of 48x5120\",\"cols\":%d,\"us\":%.2f}\n", cols, us);
    }
    // DeltaNet of the 27B: one sequence of `cols` columns, and `cols` sequences of one.
    for (int one = 0; one < 2; one++) {
      if (cols == 512 && !one) continue;
      const int seqs = one ? 1 : cols;
      std::vector<i32> first, slot, seq;
      for (int s = 0; s < seqs; s++) first.push_back(s * (one ? cols : 1)), slot.push_back(s);
      first.push_back(cols);
      for (int c = 0; c < cols; c++) seq.push_back(one ? 0 : c);
      Buffer bf = rig.up(first), bs = rig.up(slot), bq = rig.up(seq), qkv = rig.up(random.normals(size_t(10240) * cols)),
             z = rig.up(random.normals(size_t(6144) * cols)), ab = rig.up(random.normals(size_t(96) * cols));
      Buffer cw = rig.up(random.normals(40960)), na = rig.up(std::vector<f32>(48, -0.5f)), dt = rig.up(random.normals(48)),
             out = rig.buffer(u64(6144) * cols * 4);
      constexpr int layers = 24;
      Buffer state = rig.buffer(u64(layers) * seqs * 48 * 128 * 128 * 4), window = rig.buffer(u64(seqs) * 3 * 10240 * 4);
      Batch b;
      b.cols = cols, b.seqs = seqs, b.max_seq_cols = one ? cols : 1, b.first = bf.as<i32>(), b.slot = bs.as<i32>(), b.seq = bq.as<i32>();
      DeltaNetArgs d;
      d.qkv = qkv.as<f32>(), d.z = z.as<f32>(), d.alpha = ab.as<f32>(), d.beta = ab.as<f32>() + 48, d.ldqkv = 10240, d.ldz = 6144,
      d.ldab = 96, d.k_heads = 16, d.v_heads = 48, d.dim = 128;
      d.conv_w = cw.as<f32>(), d.dt = dt.as<f32>(), d.a = na.as<f32>(), d.norm = w.as<f32>(), d.eps = 1e-6f,
      d.conv_state = window.as<f32>(), d.out = out.as<f32>();
      const f64 us = timer.median_us([&] {
        for (int i = 0; i < layers; i++) d.state = state.as<f32>() + u64(i) * seqs * 48 * 128 * 128, rig.ctx.k->delta_net(rig.ctx, b, d);
      }) / layers;
      if (cols == 512) {
        std::vector<Launch> each;
        rig.ctx.launches = &each;
        for (int i = 0; i < 3; i++) each.clear(), rig.ctx.k->delta_net(rig.ctx, b, d);
        rig.ctx.launches = nullptr;
        for (const Launch& l : each) std::printf("{\"bench\":\"%s\",\"cols\":%d,\"us\":%.2f}\n", l.kernel.c_str(), cols, l.time_us);
      }
      std::printf("{\"bench\":\"delta_net\",\"cols\":%d,\"seqs\":%d,\"us\":%.2f}\n", cols, seqs, us);
    }
    std::fflush(stdout);
  }
}

// Attention of the 27B at some depths: columns of one sequence, and of as many sequences.
void time_attention(Rig& rig) {
  Timer timer(rig);
  Random random(8);
  Buffer w = rig.up(random.normals(256));
  for (auto [cols, one_each] : {std::pair(1, false), {8, false}, {8, true}, {64, false}, {512, false}})
    for (int depth : {64, 1024, 8192}) {
      const int seqs = one_each ? cols : 1, per_seq = cols / seqs, pages_each = (depth + per_seq) / 64 + 1;
      std::vector<i32> pos, seq, pages, first;
      for (int c = 0; c < cols; c++) pos.push_back(depth + c % per_seq), seq.push_back(c / per_seq);
      for (int p = 0; p < pages_each * seqs; p++) pages.push_back(p);
      for (int s = 0; s <= seqs; s++) first.push_back(s * per_seq);
      Buffer bp = rig.up(pos), bs = rig.up(seq), bt = rig.up(pages), bf = rig.up(first),
             q = rig.up(random.normals(size_t(12288) * size_t(cols))), kv = rig.up(random.normals(size_t(2048) * size_t(cols))),
             out = rig.buffer(u64(6144) * u64(cols) * 4);
      Buffer rope = rig.up(random.normals(size_t(pages_each) * 64 * 64)), k = rig.buffer(u64(pages_each * seqs) * 4 * 64 * 512),
             v = rig.buffer(u64(pages_each * seqs) * 4 * 64 * 512);
      Batch b;
      b.cols = cols, b.seqs = seqs, b.max_seq_cols = per_seq, b.max_pos = depth + per_seq - 1, b.pos = bp.as<i32>(), b.seq = bs.as<i32>(),
      b.first = bf.as<i32>(), b.page_table = bt.as<i32>(), b.max_pages = pages_each;
      AttentionArgs a;
      a.q = q.as<f32>(), a.k = kv.as<f32>(), a.v = kv.as<f32>() + 1024, a.ldq = 12288, a.ldk = a.ldv = 2048, a.n_q = 24, a.n_kv = 4,
      a.head_dim = 256, a.q_stride = 512, a.gated = true;
      a.q_norm = a.k_norm = w.as<f32>(), a.eps = 1e-6f, a.scale = 1.0f / 16, a.n_rot = 64, a.rope = rope.as<f32>(),
      a.cache = {k.data(), v.data(), Type::F16, Type::F16, 64}, a.out = out.as<f32>();
      const f64 us = timer.median_us([&] {
        for (int i = 0; i < 10; i++) rig.ctx.k->attention(rig.ctx, b, a);
      }) / 10;
      std::printf("{\"bench\":\"attention\",\"depth\":%d,\"cols\":%d,\"seqs\":%d,\"us\":%.2f", depth, cols, seqs, us);
      std::vector<Launch> each;
      rig.ctx.launches = &each;
      for (int i = 0; i < 3; i++) each.clear(), rig.ctx.k->attention(rig.ctx, b, a);
      rig.ctx.launches = nullptr;
      for (const Launch& l : each) std::printf(",\"%s\":%.2f", l.kernel.c_str(), l.time_us);
      std::printf("}\n");
      std::fflush(stdout);
    }
}

// Experts: 256 of 512x2048, top 8.  One token's weights: "warm", the same eight experts again and again, so from the
// L2 cache as a peer's benchmark has them; "cold", as in a model: more than 200 MB of others between.
void time_experts(Rig& rig, const TimeOptions& o) {
  Timer timer(rig);
  Random random(7);
  Pool pool(rig, u64(2) << 30);
  constexpr u64 enough = u64(200) << 20;
  constexpr int experts = 256, top = 8, choices = experts / top;
  for (Type type : {Type::PQ2_0, Type::Q1_0, Type::Q2_0, Type::IQ1_S, Type::IQ2_XXS, Type::IQ2_XS, Type::IQ3_XXS, Type::IQ3_S, Type::Q2_K,
                    Type::Q3_K, Type::Q4_0, Type::Q4_K, Type::Q8_0})
    for (int cols : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}) {
      if (!named(o.types, type_name(type)) || !named(o.cols.empty() ? "1,512" : o.cols, std::to_string(cols))) continue;
      std::vector<Weight> glu, down;
      for (u64 n = 0; n < enough; n += glu.back().bytes * 2) glu.push_back(pool.take(type, 512, 2048, true, experts));
      for (u64 n = 0; n < enough; n += down.back().bytes) down.push_back(pool.take(type, 2048, 512, false, experts));
      const int lists = cols == 1 ? choices : 1, entries = cols * top;  // of ids
      std::vector<i32> ids;
      for (int l = 0; l < lists; l++)
        for (int i = 0; i < entries; i++) ids.push_back(choices * (i % top) + (cols == 1 ? l : random.below(choices)));
      Buffer di = rig.up(ids), dw = rig.up(std::vector<f32>(size_t(entries), 0.125f)), h = rig.buffer(u64(entries) * 512 * 4),
             x = rig.buffer(u64(cols) * 2048 * 4);
      Input in(rig, 2048, cols, act_of(rig, type)), mid(rig, 512, entries, act_of(rig, type));
      for (int choice : {0, -1})
        for (bool cold : {false, true}) {
          if (cold && cols > 1) continue;
          wide_choice = narrow_choice = choice;
          auto ids_of = [&](int i) { return di.as<i32>() + (cold ? i % lists * entries : 0); };
          auto of = [&](const std::vector<Weight>& w, int i) -> const Weight& { return w[cold ? size_t(i / lists) % w.size() : 0]; };
          auto do_glu = [&](int i) { rig.ctx.k->moe_glu(rig.ctx, of(glu, i), of(glu, i), in.act, ids_of(i), top, Glu::silu, h.as<f32>()); };
          auto do_down = [&](int i) { rig.ctx.k->moe_down(rig.ctx, of(down, i), mid.act, ids_of(i), dw.as<f32>(), top, x.as<f32>()); };
          auto each_us = [&](auto& work, const std::vector<Weight>& w) {
            const int times = cold ? lists * int(w.size()) : 10;
            return timer.median_us([&] {
              for (int i = 0; i < times; i++) work(i);
            }) / times;
          };
          const f64 glu_us = each_us(do_glu, glu), down_us = each_us(do_down, down);
          std::vector<Launch> launches;
          rig.ctx.launches = &launches;
          do_glu(0), do_down(0);
          rig.ctx.launches = nullptr;
          const bool wide = std::ranges::any_of(launches, [](const Launch& l) { return l.kernel.substr(0, 4) == "gemm"; });
          std::printf(
              "{\"bench\":\"experts\",\"type\":\"%s\",\"cols\":%d,\"kernel\":\"%s\",\"weights\":\"%s\",\"glu_us\":%.2f,\"down_us\":%.2f}\n",
              type_name(type), cols,
              choice ? "matvec"
              : wide ? "wide"
                     : "entries",
              cols > 8 ? "all"
              : cold   ? "cold"
                       : "warm",
              glu_us, down_us);
        }
      wide_choice = narrow_choice = 0;
      std::fflush(stdout);
    }
}

}  // namespace

void time_kernels(Rig& rig, const TimeOptions& o) {
  if (o.what.empty() || o.what == "matvec") time_matvec(rig, o);
  if (o.what.empty() || o.what == "chain") time_chain(rig, o);
  if (o.what.empty() || o.what == "steps") time_steps(rig);
  if (o.what.empty() || o.what == "steps" || o.what == "attention") time_attention(rig);
  if (o.what.empty() || o.what == "steps" || o.what == "experts") time_experts(rig, o);
}

}  // namespace fewbit::kernel::cuda::check
