// cuda_check [verify|quick|quick-wide|decode|attention|wide|half|experts|layouts|in-file|time [WHAT [TYPES [COLUMNS]]]] [-v]
// WHAT: matvec, chain, steps, attention, experts
#include <cstring>

#include "kernel/ceiling.h"
#include "kernel/cuda/act_layout.h"
#include "kernel/cuda/check/check.h"
#include "kernel/cuda/common.cuh"
#include "kernel/cuda/half_layout.h"
#include "kernel/ref/ref.h"

namespace fewbit::kernel::cuda::check {

Result<std::unique_ptr<Rig>> Rig::open() {
  auto rig = std::make_unique<Rig>();
  FEWBIT_TRY(rig->gpu, open_device("cuda"));
  FEWBIT_TRY(rig->host, open_device("cpu", {.threads = 1}));
  FEWBIT_TRY(const Kernels* k, kernel::kernels_for(*rig->gpu, Path::fast));
  rig->ctx.device = rig->gpu.get(), rig->ctx.k = k, rig->ctx.stream = rig->gpu->stream();
  rig->ref.device = rig->host.get(), rig->ref.k = ref::table();
  FEWBIT_TRY(rig->scratch, rig->gpu->allocate(256 << 20));
  rig->ctx.scratch = rig->scratch.data(), rig->ctx.scratch_bytes = rig->scratch.bytes();
  return Result<std::unique_ptr<Rig>>(std::move(rig));
}

void Rig::report(const std::string& op, const std::string& what, bool good, f64 error) {
  (good ? ok : failed)++;
  if (!good || verbose)
    std::printf("{\"op\":\"%s\",\"case\":\"%s\",\"status\":\"%s\",\"error\":%.3g}\n", op.c_str(), what.c_str(), good ? "OK" : "FAIL",
                error);
  if (!good) std::fflush(stdout);
}

f64 Rig::distance(const std::vector<f32>& got, const std::vector<f32>& want) {
  f64 diff = 0, norm = 1e-30;
  for (size_t i = 0; i < want.size(); i++) {
    if (std::isnan(got[i]) || std::isnan(want[i])) {
      if (std::isnan(got[i]) != std::isnan(want[i])) return INFINITY;
      continue;
    }
    diff += (f64(got[i]) - want[i]) * (f64(got[i]) - want[i]), norm += f64(want[i]) * want[i];
  }
  return std::sqrt(diff / norm);
}

void Rig::same_bits(const std::string& op, const std::string& what, const std::vector<f32>& a, const std::vector<f32>& b) {
  size_t different = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size() && i < b.size(); i++) different += std::memcmp(&a[i], &b[i], 4) != 0;
  report(op, what, different == 0, f64(different));
}

TwoActs make_act(Rig& rig, const std::vector<f32>& x, int n, int cols, ActLayout layout, const Rotation* rotation) {
  TwoActs t;
  t.memory = rig.buffer(rig.ctx.k->act_bytes(layout, n, cols));
  t.gpu = {layout, n, cols, t.memory.data()};
  Buffer dx = rig.up(x);
  const Kernels::ActOut out{&t.gpu, rotation};
  rig.ctx.k->norm(rig.ctx, dx.as<f32>(), n, n, cols, nullptr, 0, nullptr, {&out, 1});
  t.values.resize(size_t(n) * cols);
  if (layout == ActLayout::f32) {
    const std::vector<f32> v = rig.down<f32>(t.memory.data(), t.values.size());
    std::copy(v.begin(), v.end(), t.values.begin());
  } else if (layout == ActLayout::f16) {
    const std::vector<u8> v = rig.down<u8>(t.memory.data(), t.memory.bytes());
    const int units = act_units(n);
    for (int c = 0; c < cols; c++) {
      f32 d;
      std::memcpy(&d, v.data() + half_act_scales_at(units, cols) + 4 * c, 4);
      for (int i = 0; i < n; i++) t.values[size_t(c) * n + i] = f64(d) * f64(f16_at(v.data() + half_act_at(units, cols, c, i)));
    }
  } else {
    const std::vector<u8> v = rig.down<u8>(t.memory.data(), t.memory.bytes());
    for (int c = 0; c < cols; c++)
      for (int i = 0; i < n; i++) {
        const u8* block = v.data() + act_block_at(act_units(n), c, i / 128);
        f32 d;
        std::memcpy(&d, block + act_d_of(c % 8, i % 128 / 32), 4);
        t.values[size_t(c) * n + i] = f64(d) * f64(i8(block[act_q_at(c % 8, i % 128)]));
      }
  }
  t.ref = {layout, n, cols, t.values.data()};
  return t;
}

}  // namespace fewbit::kernel::cuda::check

int main(int argc, char** argv) {
  using namespace fewbit;
  using namespace fewbit::kernel::cuda::check;
  auto word = [&](int i) { return argc > i && argv[i][0] != '-' ? std::string(argv[i]) : std::string(); };
  const std::string stage = argc > 1 ? argv[1] : "verify", what = word(2);
  auto opened = Rig::open();
  if (!opened.ok()) {
    std::fprintf(stderr, "cuda_check: %s\n", opened.error().what.c_str());
    return 1;
  }
  Rig& rig = **opened;
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);
  rig.verbose = std::strcmp(argv[argc - 1], "-v") == 0;
  std::printf("{\"device\":\"%s\",\"stage\":\"%s\"}\n", rig.gpu->name().c_str(), stage.c_str());
  const bool only_wide = stage == "wide" || stage == "quick-wide";
  if (stage == "verify" || stage == "quick" || only_wide) {
    if (!only_wide) {
      check_steps(rig);
      check_sequence(rig, stage == "quick");
      check_attention(rig, stage == "quick");
      check_matmul(rig, stage == "quick");
      check_in_file(rig, stage == "quick");
      check_half(rig, stage == "quick");
    }
    if (stage != "quick") check_wide(rig, stage == "quick-wide");
    if (stage == "quick-wide") check_half_wide(rig);
    std::printf("{\"ok\":%d,\"failed\":%d}\n", rig.ok, rig.failed);
    return rig.failed ? 1 : 0;
  }
  if (stage == "decode" || stage == "experts" || stage == "layouts" || stage == "in-file" || stage == "half" || stage == "attention") {
    if (stage == "attention") {
      check_attention(rig, what == "quick");
    } else if (stage == "half") {
      check_half(rig, false);
    } else if (stage == "experts") {
      check_experts(rig, what == "quick");
    } else if (stage == "in-file") {
      check_in_file(rig, false);
    } else if (stage == "layouts") {
      check_layouts(rig);
    } else {
      check_decode(rig);
      check_sequence(rig, true);
      check_attention(rig, true);
      check_steps(rig);
    }
    std::printf("{\"ok\":%d,\"failed\":%d}\n", rig.ok, rig.failed);
    return rig.failed ? 1 : 0;
  }
  if (what.empty()) {
    auto c = kernel::measure_ceiling(*rig.gpu, 0.5);
    if (c.ok())
      std::printf("{\"read_gb_s\":%.0f,\"copy_gb_s\":%.0f,\"barrier_us\":%.2f,\"launch_us\":%.3f}\n", c->read_gb_s, c->copy_gb_s,
                  c->barrier_us, c->launch_us);
  }
  time_kernels(rig, {what, word(3), word(4)});
  return 0;
}
