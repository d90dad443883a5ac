#include "base/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

namespace fewbit {
namespace {

using Unit = Progress::Unit;

TEST(Progress, Line) {
  EXPECT_EQ(Progress::line("loading", 1, 4, Unit::percent, 10, 60), "loading  [#######........................]   25 %  0:30 left");
  EXPECT_EQ(Progress::line("loading", 4, 4, Unit::percent, 10, 40), "loading  [###########]  100 %  0:00 left");
  EXPECT_EQ(Progress::line("q", 0, 4, Unit::percent, 10, 30), "q  [..................]    0 %");
  EXPECT_EQ(Progress::line("get", 1'500'000'000, 3'000'000'000, Unit::bytes, 10, 50), "get   50 %  1.5 GB of 3.0 GB  150 MB/s  0:10 left");
  EXPECT_EQ(Progress::line("ppl", 3, 12, Unit::count, 1200, 35), "ppl   25 %  3 of 12  1:00:00 left");
  EXPECT_EQ(Progress::line("get", 2048, 0, Unit::bytes, 61, 50), "get  2.0 kB  1:01");
  EXPECT_EQ(Progress::line("wait", 0, 0, Unit::percent, 5, 50), "wait  0:05");
  EXPECT_EQ(Progress::line("loading", 9, 4, Unit::percent, 1, 12), "loading  100");
  EXPECT_EQ(Progress::line("loading", 1, 4, Unit::percent, 1, 0), "");
  for (int width = -3; width < 200; width++) {
    std::string text = Progress::line("loading", 123456, 1234567, Unit::bytes, 3.5, width);
    EXPECT_LE(text.size(), size_t(std::max(width, 0)));
  }
}

TEST(Progress, SilentWhenNotATerminal) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  {
    Progress p("loading", 10, Unit::count, ends[1]);
    EXPECT_FALSE(p.active());
    std::this_thread::sleep_for(std::chrono::milliseconds(350));
    p.update(5);
    p.share(0.5);
  }
  char buffer[16];
  EXPECT_EQ(read(ends[0], buffer, sizeof buffer), -1);
  close(ends[0]), close(ends[1]);
}

TEST(Progress, DrawsOnATerminalAndWipes) {
  int control = posix_openpt(O_RDWR | O_NOCTTY);
  if (control < 0 || grantpt(control) != 0 || unlockpt(control) != 0) GTEST_SKIP() << "no pseudo terminal here";
  int terminal = open(ptsname(control), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  setenv("TERM", "xterm", 1);
  std::string seen;
  {
    Progress p("loading", 10, Unit::count, terminal);
    ASSERT_TRUE(p.active());
    p.update(1);  // too early to show
    std::this_thread::sleep_for(std::chrono::milliseconds(350));
    for (int i = 0; i < 1000; i++) p.update(5);  // at most one line in a tenth of a second
    p.finish();
    p.update(9);
  }
  fcntl(control, F_SETFL, O_NONBLOCK);
  char buffer[4096];
  for (ssize_t n; (n = read(control, buffer, sizeof buffer)) > 0;) seen.append(buffer, size_t(n));
  EXPECT_NE(seen.find("loading"), std::string::npos) << seen;
  EXPECT_NE(seen.find("50 %  5 of 10"), std::string::npos) << seen;
  EXPECT_EQ(seen.find("10 %"), std::string::npos) << seen;
  EXPECT_EQ(seen.find("90 %"), std::string::npos) << seen;
  EXPECT_TRUE(seen.ends_with("\r\x1b[K")) << seen;
  EXPECT_LE(std::count(seen.begin(), seen.end(), '\r'), 4);
  close(terminal), close(control);
}

}  // namespace
}  // namespace fewbit
