#include "reference-trainer/device.h"

#include <gtest/gtest.h>
#include <poolscope/annotate.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "reference-trainer/timing.h"

namespace poolscope::trainer {
namespace {

TEST(EmulatedDevice, AnOperation_LastsAtLeastItsTime) {
  UseFineTimers();
  EmulatedDevice device(0, 1);
  const int64_t begin = NowNs();
  EXPECT_EQ(device.Run(0.005, {}), POOLSCOPE_NO_VALUE);
  EXPECT_GE(NowNs() - begin, 5'000'000);
}

TEST(EmulatedDevice, OperationsInARow_DoNotAddUpTheirErrors) {
  UseFineTimers();
  EmulatedDevice device(0, 1);
  const int64_t begin = NowNs();
  for (int i = 0; i < 40; ++i) device.Run(0.005, {});
  const int64_t elapsed = NowNs() - begin;
  EXPECT_GE(elapsed, 200'000'000);
}

TEST(EmulatedDevice, ArithmeticThatFitsIn_CostsNothingExtra) {
  UseFineTimers();
  EmulatedDevice device(0, 1);
  const int64_t begin = NowNs();
  bool done = false;
  device.Run(0.010, [&] {
    SleepUntilNs(begin + 5'000'000);
    done = true;
  });
  EXPECT_TRUE(done);
  EXPECT_GE(NowNs() - begin, 10'000'000);
}

TEST(CpuDevice, ReportsTheThreadsCpuTimeNotItsSleep) {
  CpuDevice device;
  const uint64_t cpu_ns = device.Run(0, [] { SleepUntilNs(NowNs() + 50'000'000); });
  EXPECT_LT(cpu_ns, 25'000'000u);
}

}  // namespace
}  // namespace poolscope::trainer
