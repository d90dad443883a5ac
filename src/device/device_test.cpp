#include "device/device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace fewbit {

TEST(Device, CpuBuffersAreZeroAlignedAndMovable) {
  auto device = open_device("cpu", {.threads = 2});
  ASSERT_TRUE(device.ok());
  EXPECT_EQ((*device)->kind(), DeviceKind::cpu);
  EXPECT_EQ((*device)->pool()->size(), 2);
  for (u64 n : {u64(1), u64(4097), u64(9) << 20}) {
    auto buffer = (*device)->allocate(n);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 256, 0u);
    EXPECT_EQ(std::accumulate(buffer->as<u8>(), buffer->as<u8>() + n, 0u), 0u);
    Buffer moved = std::move(*buffer);
    moved.as<u8>()[n - 1] = 7;
    EXPECT_EQ(moved.bytes(), n);
  }
  auto none = (*device)->allocate(0);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->data(), nullptr);
}

// The keys of a layer at depth 4096 are no whole number of 2 MiB pages; without care they begin anywhere and lose a quarter of them.
TEST(Device, LargeCpuBuffersBeginOnLargePages) {
  auto device = open_device("cpu").value();
  const u64 bytes = (u64(8) << 20) + (u64(128) << 10) + 100;
  std::vector<Buffer> kept;
  for (int i = 0; i < 4; i++) {
    Buffer b = device->allocate(bytes + u64(i) * 4096).value();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data()) % (u64(2) << 20), 0u) << i;
    u8* last = static_cast<u8*>(b.data()) + b.bytes() - 1;
    EXPECT_EQ(*last, 0);
    *last = 1;
    if (i % 2 == 0) kept.push_back(std::move(b));
  }
}

TEST(Device, CopiesZeroesAndReportsMemory) {
  auto device = open_device("cpu");
  ASSERT_TRUE(device.ok());
  Device& d = **device;
  EXPECT_GE(d.pool()->size(), 1);
  auto a = d.allocate(16), b = d.allocate(16);
  ASSERT_TRUE(a.ok() && b.ok());
  d.upload(a->data(), "0123456789abcdef", 16);
  d.copy(b->data(), a->data(), 16);
  d.zero(a->data(), 8);
  char text[17] = {};
  d.download(text, b->data(), 16);
  EXPECT_STREQ(text, "0123456789abcdef");
  EXPECT_EQ(a->as<char>()[7], 0);
  EXPECT_EQ(a->as<char>()[8], '8');
  EXPECT_GT(d.memory_total(), u64(64) << 20);
  EXPECT_LE(d.memory_free(), d.memory_total());
}

// Far more than is touched: nothing may be committed for it.
TEST(Device, UntouchedPagesCostNothing) {
  auto device = open_device("cpu", {.threads = 1});
  ASSERT_TRUE(device.ok());
  u64 large = (*device)->memory_total() / 2;
  auto a = (*device)->allocate(large), b = (*device)->allocate(large);
  ASSERT_TRUE(a.ok() && b.ok());
  a->as<u8>()[large - 1] = 1;
}

TEST(Device, RefusesInOneLine) {
  auto device = open_device("cpu");
  auto huge = (*device)->allocate(u64(1) << 50);
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().code, Code::out_of_memory);
  EXPECT_NE(huge.error().what.find("1073741824 MiB"), std::string::npos) << huge.error().what;
  for (const char* bad : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda1", "metal"}) {
    auto r = open_device(bad);
    ASSERT_FALSE(r.ok()) << bad;
    EXPECT_EQ(r.error().what.find('\n'), std::string::npos);
    EXPECT_NE(r.error().what.find(bad), std::string::npos);
  }
  EXPECT_FALSE(open_device("cpu", {.threads = -1}).ok());
}

TEST(Device, AutoOpensSomethingAndListNamesTheCpu) {
  EXPECT_TRUE(open_device("auto").ok());
  auto all = list_devices();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].id, "cpu");
  EXPECT_TRUE(all[0].note.empty());
}

// Somebody whose GPU is not used finds out why.
TEST(Device, ListSaysWhyThereIsNoGpu) {
  auto all = list_devices();
  ASSERT_GE(all.size(), 2u);
  EXPECT_EQ(all[1].id.substr(0, 4), "cuda");
  EXPECT_FALSE(all[1].name.empty() && all[1].note.empty());  // both: a GPU that is too old
}

}  // namespace fewbit
