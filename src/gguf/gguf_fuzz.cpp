// Any bytes as a GGUF file: refused, or read, and what is read can be used, summarised, and written again as the same thing.
#include "base/fuzz.h"
#include "gguf/hostile_cases.h"
#include "gguf/imatrix.h"
#include "gguf/inspect.h"
#include "gguf/serialize.h"

using namespace fewbit;
using namespace fewbit::gguf;

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  fuzz::write_seeds_if_asked([](auto write) {
    write("valid", hostile::valid().bytes());
    for (const hostile::Case& c : hostile::cases()) {
      if (c.bytes.size() <= 8192) write(c.name, c.bytes);
    }
    hostile::Maker m;
    m.string_key("general.type", "imatrix").strings_key("imatrix.datasets", {"d"}).u32_key("imatrix.chunk_count", 1);
    m.tensor("w.in_sum2", {4, 2}, 0, 0).tensor("w.counts", {1, 2}, 0, 32).data = 40;
    write("imatrix", m.bytes());
    write("imatrix-dat", hostile::Bytes().u32_(1).u32_(1).raw("w").u32_(2).u32_(2).f32_(1).f32_(2).u32_(1).u32_(1).raw("d").b);
  });
  return 0;
}

static u64 touch(std::span<const u8> bytes) {
  u64 sum = 0;
  for (u8 b : bytes) sum += b;
  return sum;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const u8> bytes(data, size);
  for (OpenOptions o : {OpenOptions{}, OpenOptions{.q2_0_legacy = true, .check_data = true}}) {
    auto f = File::parse(bytes, "fuzz", o);
    if (!f.ok()) {
      // One line, whatever the file holds.
      for (char ch : f.error().what) FEWBIT_CHECK(ch >= 0x20 && ch < 0x7f);
      continue;
    }
    std::vector<TensorInfo> infos;
    for (const Tensor& t : f->tensors()) {
      FEWBIT_CHECK(touch(t.data) < ~u64(0));
      FEWBIT_CHECK(t.data.size() == *tensor_bytes(t.type, u64(t.dims[0]), u64(t.rows())));
      FEWBIT_CHECK(f->tensor(t.name) == &t);
      infos.push_back({t.name, t.type, {t.dims.begin(), t.dims.begin() + t.n_dims}});
      if (t.elements() <= 4096) {
        std::vector<f32> x(static_cast<size_t>(t.elements()));
        decode_tensor(t.type, t.data, x);
      }
    }
    const std::string text = inspect_text(inspect(*f), true);
    FEWBIT_CHECK(!text.empty());
    auto again = serialize(f->metadata(), infos, 0);
    FEWBIT_CHECK(again.ok(), "%s", again.error().what.c_str());
    std::vector<u8> copy = again->head;
    copy.resize(again->file_bytes);
    for (size_t i = 0; i < infos.size(); i++) {
      std::copy(f->tensors()[i].data.begin(), f->tensors()[i].data.end(), copy.begin() + i64(again->head.size() + again->offsets[i]));
    }
    auto g = File::parse(copy, "again");
    FEWBIT_CHECK(g.ok(), "%s", g.error().what.c_str());
    FEWBIT_CHECK(g->tensors().size() == f->tensors().size() && g->metadata().size() == f->metadata().size());
  }
  if (auto m = Imatrix::parse(bytes, "fuzz"); m.ok()) {
    for (auto& [name, e] : m->entries) FEWBIT_CHECK(e.importance(0).empty() || i64(e.importance(0).size()) == e.n_in);
    Imatrix twice = *m;
    FEWBIT_CHECK(twice.merge(*m).ok());
  }
  return 0;
}
