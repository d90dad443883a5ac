// Random matrices of any type, on the host and placed.
#pragma once
#include <string>
#include <vector>

#include "kernel/cuda/check/check.h"
#include "kernel/cuda/ops.h"
#include "kernel/layout/random_blocks.h"

namespace fewbit::kernel::cuda::check {

struct Matrix {
  std::vector<u8> data;
  std::vector<f32> scale, bias;
  HostTensor tensor;
};
inline Matrix matrix(Random& random, Type type, i64 rows, i64 cols, i64 experts, bool extras) {
  Matrix m;
  m.data.resize(*tensor_bytes(type, u64(cols), u64(rows * experts)));
  cpu::RandomBlocks blocks(random.engine());
  blocks.fill(type, m.data.data(), type == Type::I2_S ? m.data.size() - 32 : m.data.size());
  if (type == Type::I2_S) store_le<f32>(m.data.data() + m.data.size() - 32, 0.37f);
  if (extras) m.scale = random.normals(size_t(experts)), m.bias = random.normals(size_t(rows));
  m.tensor = {std::string(type_name(type)), type, cols, rows, experts, {}, nullptr, nullptr};
  return m;
}
inline HostTensor& view(Matrix& m) {
  m.tensor.data = m.data;
  m.tensor.scale = m.scale.empty() ? nullptr : m.scale.data();
  m.tensor.bias = m.bias.empty() ? nullptr : m.bias.data();
  return m.tensor;
}
inline std::vector<Weight> place_on(Ctx& ctx, std::vector<HostTensor> t, GroupUse use, std::vector<Buffer>& owned,
                                    const PlaceOptions& options = {}) {
  auto w = ctx.k->place(ctx, t, use, options, owned);
  FEWBIT_CHECK(w.ok(), "%s", w.error().what.c_str());
  return std::move(w).value();
}
inline std::string label(Type type, i64 rows, i64 cols, int columns) {
  return std::string(type_name(type)) + (dense_choice > 0 ? " dense " : " ") + std::to_string(rows) + "x" + std::to_string(cols) + "x" +
         std::to_string(columns);
}

void check_joined(Rig&, bool quick);  // joined.cpp

}  // namespace fewbit::kernel::cuda::check
