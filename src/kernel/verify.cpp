#include "kernel/verify.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "kernel/parity.h"
#include "kernel/ref/ref.h"
#include "kernel/verify_cases.h"

namespace fewbit::kernel {
namespace {

struct Judgement {
  Distance distance;
  std::string trouble;  // empty: within the bound
};
Judgement judge(const Case& c, const CaseResult& got, const CaseResult& want) {
  Judgement j;
  if (got.out.size() != want.out.size()) return {{}, "output of another size"};
  j.distance = distance_of(got.out, std::vector<f64>(want.out.begin(), want.out.end()));
  const Parity* p = parity_of(c.op);
  FEWBIT_CHECK(p, "no bound for %s", c.op.c_str());
  if (!got.guards) {
    j.trouble = "wrote outside its output";
  } else if (!(j.distance.nmse <= p->nmse)) {
    char text[64];
    std::snprintf(text, sizeof text, "nmse %.2e above %.0e", j.distance.nmse, p->nmse);
    j.trouble = text;
  }
  return j;
}

// Formats that no GPU table takes.  Every other one without a kernel is a hole, whatever the table says of itself.
bool left_to_cpu(DeviceKind device, std::string_view type) { return device != DeviceKind::cpu && type == type_name(Type::NVFP4); }

// The sides of a comparison; the reference lives on a CPU of its own.
struct Sides {
  std::unique_ptr<Device> host = std::move(open_device("cpu", {.threads = 1}).value());
  Side ref, tested;
  // one_thread: a CPU table runs on the reference's CPU, so that nobody waits for a second thread.
  Sides(Device& device, const Kernels& table, bool one_thread = false)
      : ref(*host, *ref::table()), tested(one_thread && device.kind() == DeviceKind::cpu ? *host : device, table) {}
  CaseResult run(const Case& c, bool under_test, Fault fault = Fault::none) {
    Side& side = under_test ? tested : ref;
    CaseResult r = c.run(side, fault);
    side.reset();
    return r;
  }
};

}  // namespace

VerifyReport verify(Device& device, const Kernels& table, const VerifyOptions& options,
                    const std::function<void(const VerifyRow&)>& on_row) {
  CaseRequest request;
  request.table = &table;
  std::vector<Case> cases;
  weight_cases(request, cases);
  step_cases(request, cases);
  Sides sides(device, table);
  sides.tested.placing.repack = options.repack;
  VerifyReport report;
  std::map<Fault, VerifyCount> by_fault;
  VerifyCount total;
  auto emit = [&](VerifyRow row, VerifyCount* also) {
    for (VerifyCount* n : {&total, also}) {
      if (!n) continue;
      switch (row.verdict) {
        case Verdict::ok:
          n->ok++;
          break;
        case Verdict::fail:
          n->fail++;
          break;
        case Verdict::missing:
          n->missing++;
          break;
        case Verdict::not_offered:
          n->not_offered++;
          break;
        case Verdict::listed:
          n->listed++;
      }
    }
    if (on_row) on_row(row);
    report.rows.push_back(std::move(row));
  };
  int nth = 0;
  for (const Case& c : cases) {
    if (nth++ % options.every != 0) continue;
    if (options.cancel && *options.cancel) break;
    if (!options.op.empty() && options.op != c.op) continue;
    if (!options.type.empty() && options.type != c.type) continue;
    VerifyRow row;
    row.op = c.op;
    row.type = c.type;
    row.shape = c.shape;
    row.columns = c.columns;
    const CaseResult got = options.list && !options.kernel ? CaseResult{} : sides.run(c, true);
    row.kernel = got.kernel;
    if (options.kernel && !options.kernel(row.kernel)) continue;
    if (!got.missing.empty()) {
      row.verdict = left_to_cpu(device.kind(), c.type) ? Verdict::not_offered : Verdict::missing;
      row.note = got.missing;
      emit(row, nullptr);
      continue;
    }
    if (options.list) {
      row.verdict = Verdict::listed;
      if (!options.mutate) emit(row, nullptr);
      for (size_t i = 0; options.mutate && i < c.faults.size(); i++) row.note = fault_name(c.faults[i]), emit(row, nullptr);
      continue;
    }
    const CaseResult want = sides.run(c, false);
    if (!options.mutate) {
      const Judgement j = judge(c, got, want);
      row.nmse = j.distance.nmse;
      row.max_error = j.distance.max_error;
      row.verdict = j.trouble.empty() ? Verdict::ok : Verdict::fail;
      row.note = j.trouble;
      emit(row, nullptr);
      continue;
    }
    for (Fault fault : c.faults) {
      // A dropped correction is planted in what is expected, every other fault in what the kernel is given.
      const bool in_reference = fault == Fault::dropped_correction;
      const Judgement j = in_reference ? judge(c, got, sides.run(c, false, fault)) : judge(c, sides.run(c, true, fault), want);
      VerifyCount& count = by_fault[fault];
      count.name = fault_name(fault);
      row.nmse = j.distance.nmse;
      row.max_error = j.distance.max_error;
      row.verdict = j.trouble.empty() ? Verdict::fail : Verdict::ok;
      row.note = std::string(fault_name(fault)) + (j.trouble.empty() ? ": not noticed" : "");
      emit(row, &count);
    }
  }
  report.counts.push_back(total);
  for (auto& [fault, count] : by_fault) report.counts.push_back(count);
  return report;
}

static Status run_self_test(Device& device, const Kernels& table) {
  CaseRequest request;
  request.table = &table;
  request.quick = true;
  std::vector<Case> cases;
  weight_cases(request, cases);
  step_cases(request, cases);
  Sides sides(device, table, true);
  const char* broken = std::getenv("FEWBIT_TEST_BREAK");
  for (const Case& c : cases) {
    CaseResult got = sides.run(c, true);
    if (!got.missing.empty()) continue;  // said when a tensor asks for it
    if (broken && got.kernel.find(broken) != std::string::npos) got.out.back() += 1;
    const Judgement j = judge(c, got, sides.run(c, false));
    if (!j.trouble.empty()) {
      return Error{Code::unsupported, "kernel '" + got.kernel + "' is broken on this machine (" + c.op + " " + c.type + " " + c.shape +
                                          ", " + std::to_string(c.columns) + " columns: " + j.trouble + "); see `fewbit verify`"};
    }
  }
  return {};
}

Status self_test(Device& device, const Kernels& table) {
  try {
    return run_self_test(device, table);
  } catch (const NoMemory& e) { return Error{Code::out_of_memory, std::string("self-test: ") + e.what()}; }
}

Result<const Kernels*> tested_kernels_for(Device& device, Path path) {
  FEWBIT_TRY(const Kernels* table, kernels_for(device, path));
  if (device.kind() != DeviceKind::cpu) return table;
  static std::mutex mutex;
  static std::map<const Kernels*, Status> results;
  const std::lock_guard lock(mutex);
  auto known = results.find(table);
  if (known == results.end()) known = results.emplace(table, self_test(device, *table)).first;
  FEWBIT_OK(known->second);
  return table;
}

}  // namespace fewbit::kernel
