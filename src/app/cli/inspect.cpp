// inspect: what a file is, and which kernel each tensor would use on this device, or the one reason for refusal.
#include "gguf/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "app/cli/common.h"
#include "app/cli/values.h"
#include "base/progress.h"
#include "gguf/synth.h"

namespace fewbit::cli {

// Adds "kernel" or "refusal" to every matrix of the summary.
static Status add_kernels(Json& summary, const gguf::File& file, const std::string& device_spec, bool exact, bool repack) {
  FEWBIT_TRY(auto device, open_device(runtime::device_for(device_spec, exact), {.threads = 1}));
  FEWBIT_TRY(const kernel::Kernels* k, kernel::kernels_for(*device, exact ? kernel::Path::exact : kernel::Path::fast));
  summary["device"] = device->name();
  for (Json& row : summary["tensors"]) {
    const gguf::Tensor* t = file.tensor(row["name"].get<std::string>());
    if (!t || t->n_dims < 2 || !k->describe) continue;
    kernel::HostTensor h;
    h.name = t->name;
    h.type = t->type;
    h.cols = t->dims[0];
    h.rows = t->dims[1];
    h.experts = t->dims[2];
    h.data = t->data;
    const kernel::PlaceOptions options{.repack = repack, .mapped = true};
    auto name = k->describe(h, options);
    if (name.ok()) {
      row["kernel"] = *name;                              // with the layout: "gemv.PQ2_0/avx2.bits2.r16"
      row["packed_bytes"] = k->placed_bytes(h, options);  // 0: used as it lies in the file
    } else {
      row["refusal"] = name.error().what;
    }
  }
  return {};
}

void add_inspect(CLI::App& app, Run& run) {
  struct Options {
    std::string model, device = "auto";
    bool tensors = false, json = false, exact = false, no_repack = false, legacy = false, check = false, full = false;
  };
  auto o = std::make_shared<Options>();
  app.add_option("MODEL", o->model, "GGUF file (default: the model that ships)");
  app.add_option("-m,--model", o->model, "the same")->excludes("MODEL");
  app.add_flag("--tensors", o->tensors, "list the tensors");
  app.add_flag("--json", o->json, "one JSON document (always with tensors)");
  app.add_flag("--full", o->full, "do not shorten long arrays and texts");
  app.add_flag("--check", o->check, "also read the data: non-finite scales and forbidden codes are errors");
  app.add_flag("--exact", o->exact, "the kernels of the exact path");
  app.add_flag("--no-repack", o->no_repack, "the kernels for the file's own layout");
  app.add_flag("--q2-0-legacy", o->legacy, "read type 42 in its old layout of 128 weights");
  app.add_option("--device", o->device, "auto, cpu, cuda, cuda:N");
  run = [o]() -> Status {
    check_device(o->device);
    FEWBIT_TRY(std::string path, o->model.empty() ? default_model() : Result<std::string>(o->model));
    FEWBIT_TRY(auto file, gguf::File::open(path, {.q2_0_legacy = o->legacy, .check_data = o->check}));
    gguf::InspectOptions options;
    if (o->full) options = {.list_items = 0, .string_bytes = 0};
    Json summary = gguf::inspect(file, options);
    FEWBIT_OK(add_kernels(summary, file, o->device, o->exact, !o->no_repack));
    if (o->json) {
      fmt::print("{}\n", summary.dump(2, ' ', false, Json::error_handler_t::replace));
    } else {
      fmt::print("{}", gguf::inspect_text(summary, o->tensors));
    }
    return {};
  };
}

void add_synth(CLI::App& app, Run& run) {
  struct Options {
    std::string shape, type, out;
    int layers = 0, threads = 0;
    u64 seed = 1;
  };
  auto o = std::make_shared<Options>();
  app.add_option("SHAPE", o->shape, "e.g. qwen3-1.7b")->required();
  app.add_option("TYPE", o->type, "e.g. PQ2_0")->required();
  app.add_option("OUT", o->out, "GGUF file to write")->required();
  app.add_option("--layers", o->layers, "cut the depth")->check(whole(1, 1000));
  app.add_option("--seed", o->seed, "of the random weights")->check(whole(0, INT64_MAX));
  app.add_option("-t,--threads", o->threads, "threads");
  run = [o]() -> Status {
    const std::vector<std::string> shapes = gguf::synth_shapes();
    if (std::find(shapes.begin(), shapes.end(), o->shape) == shapes.end())
      usage(fmt::format("SHAPE: '{}' is not one of {} (the arguments are SHAPE TYPE OUT)", o->shape, fmt::join(shapes, ", ")));
    parse_type("TYPE", o->type);
    auto options = gguf::parse_synthetic(o->shape + ":" + o->type);
    if (!options.ok()) usage("synth: " + options.error().what);
    options->n_layers = o->layers;
    options->seed = o->seed;
    options->n_threads = o->threads;
    options->cancel = &Cancel::flag();
    Progress bar("writing");
    return gguf::write_synthetic(*options, o->out, [&](u64 done, u64 all) { bar.share(f64(done) / f64(all)); });
  };
}

}  // namespace fewbit::cli
