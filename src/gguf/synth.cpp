#include "gguf/synth.h"

#include <fmt/format.h>

#include "base/bits.h"
#include "base/thread_pool.h"
#include "gguf/synth_shape.h"

namespace fewbit::gguf {

namespace {

void fill_vector(const Planned& p, std::span<u8> bytes, u64 seed) {
  fill_random(Type::F32, bytes, 1, seed);
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    const f32 u = f32(load_le<u32>(bytes.data() + i) & 0xffff) / 65536;  // the low bits of a random mantissa: uniform
    f32 x = u;
    if (p.filling == Filling::norm) x = 0.9f + 0.2f * u;
    if (p.filling == Filling::decay) x = -0.1f - 0.9f * u;
    if (p.filling == Filling::step_bias) x = -3 * u;
    store_le(bytes.data() + i, x);
  }
}

// Fills tensors [first, first + memory.size()) with all threads; what a tensor gets depends only on its number and the seed.
void fill(const std::vector<Planned>& plan, size_t first, std::span<const std::span<u8>> memory, const SynthOptions& o, ThreadPool& pool) {
  struct Job {
    size_t tensor, chunk;
  };
  std::vector<Job> jobs;
  std::vector<Filler> fillers;
  for (size_t i = 0; i < memory.size(); i++) {
    const Planned& p = plan[first + i];
    const u64 own = o.seed * 1000003 + first + i;
    fillers.emplace_back(p.info.type, p.deviation, own);
    if (p.filling != Filling::weights) {
      fill_vector(p, memory[i], own);
      continue;
    }
    for (size_t c = 0; c < fillers[i].chunks(memory[i].size()); c++) jobs.push_back({i, c});
  }
  pool.for_range(i64(jobs.size()), 1, [&](i64 begin, i64 end, int) {
    for (i64 k = begin; k < end && !(o.cancel && *o.cancel); k++)
      fillers[jobs[size_t(k)].tensor].chunk(memory[jobs[size_t(k)].tensor], jobs[size_t(k)].chunk);
  });
}

std::vector<TensorInfo> infos_of(const Plan& plan) {
  std::vector<TensorInfo> infos;
  for (const Planned& p : plan.tensors) infos.push_back(p.info);
  return infos;
}

}  // namespace

Result<File> synthesize(const SynthOptions& options) {
  FEWBIT_TRY(Plan plan, plan_synthetic(options));
  const std::vector<TensorInfo> infos = infos_of(plan);
  FEWBIT_TRY(File file, File::assemble(options.shape + ":" + type_name(options.type), std::move(plan.metadata), infos,
                                       [&](const std::vector<std::span<u8>>& memory) {
                                         if (!options.fill) return;
                                         ThreadPool pool(options.n_threads, false);
                                         fill(plan.tensors, 0, memory, options, pool);
                                       }));
  if (options.cancel && *options.cancel) return Error{Code::cancelled, "cancelled while making " + file.path()};
  return file;
}

Status write_synthetic(const SynthOptions& options, const std::string& path, const SynthProgress& progress) {
  FEWBIT_TRY(Plan plan, plan_synthetic(options));
  const std::vector<TensorInfo> infos = infos_of(plan);
  FEWBIT_TRY(Writer writer, Writer::create(path, plan.metadata, infos));
  ThreadPool pool(options.n_threads, false);
  std::vector<u8> bytes;  // one tensor at a time
  u64 done = 0;
  for (size_t i = 0; i < infos.size(); i++) {
    u64 rows = 1;
    for (size_t d = 1; d < infos[i].dims.size(); d++) rows *= u64(infos[i].dims[d]);
    bytes.resize(size_t(*tensor_bytes(infos[i].type, u64(infos[i].dims[0]), rows)));
    const std::span<u8> memory(bytes);
    fill(plan.tensors, i, {&memory, 1}, options, pool);
    if (options.cancel && *options.cancel) {
      return Error{Code::cancelled, fmt::format("cancelled at tensor {} of {}; {} was not written", i + 1, infos.size(), path)};
    }
    FEWBIT_OK(writer.write(bytes));
    done += bytes.size();
    if (progress) progress(done, writer.file_bytes());
  }
  return writer.finish();
}

}  // namespace fewbit::gguf
