#include "reference-trainer/device.h"

#include <gtest/gtest.h>
#include <poolscope/annotate.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "reference-trainer/job.h"
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

TEST(EmulatedDevice, ThatIsShared_DoesOneOperationAtATime) {
  UseFineTimers();
  const auto turns = std::make_shared<Turns>();
  std::vector<std::pair<int64_t, int64_t>> ranges;
  std::mutex mutex;
  const auto work = [&](uint64_t seed) {
    UseFineTimers();
    EmulatedDevice device(0, seed, turns);
    for (int i = 0; i < 10; ++i) {
      device.AwaitTurn(0.004);
      const int64_t begin = NowNs();
      device.Run(0.004, {});
      std::lock_guard lock(mutex);
      ranges.emplace_back(begin, NowNs());
    }
  };
  const int64_t begin = NowNs();
  {
    std::thread first(work, 1), second(work, 2), third(work, 3);
    first.join();
    second.join();
    third.join();
  }
  EXPECT_GE(NowNs() - begin, 30 * 4'000'000);  // 3 × 10 operations, one after the other
  std::sort(ranges.begin(), ranges.end());
  int64_t overlap = 0;  // late wake-ups may let neighbours meet
  for (size_t i = 1; i < ranges.size(); ++i) {
    overlap += std::max<int64_t>(0, ranges[i - 1].second - ranges[i].first);
  }
  EXPECT_LT(overlap, 30 * 2'000'000);
}

TEST(Turns, AreGivenInTheOrderOfAsking) {
  Turns turns;
  EXPECT_EQ(turns.Take(100, 50), 100);
  EXPECT_EQ(turns.Take(110, 50), 150);
  EXPECT_EQ(turns.Take(120, 1), 200);
  EXPECT_EQ(turns.Take(500, 10), 500);
}

TEST(CpuDevice, ReportsTheThreadsCpuTimeNotItsSleep) {
  CpuDevice device;
  const uint64_t cpu_ns = device.Run(0, [] { SleepUntilNs(NowNs() + 50'000'000); });
  EXPECT_LT(cpu_ns, 25'000'000u);
}

}  // namespace
}  // namespace poolscope::trainer
