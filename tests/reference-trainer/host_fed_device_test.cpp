#include "reference-trainer/host_fed_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "reference-trainer/timing.h"
#include "tests/reference-trainer/training.h"

namespace poolscope::trainer {
namespace {

constexpr int64_t kMs = 1'000'000;

// Milliseconds that `count` operations take whose host and device work is 4 ms each.
int64_t Milliseconds(uint64_t ahead, int count) {
  UseFineTimers();
  HostFedDevice device(std::make_unique<EmulatedDevice>(0, 1), {0.004, ahead}, {"compute", 0});
  const int64_t begin = NowNs();
  for (int i = 0; i < count; ++i) device.Launch({nullptr, 0.004, {}, {}});
  device.Synchronize();
  return (NowNs() - begin) / kMs;
}

TEST(HostFedDevice, LaunchingAhead_OverlapsHostAndDevice) {
  EXPECT_GE(Milliseconds(0, 25), 25 * 8) << "one after the other";
  int64_t best = INT64_MAX;  // a loaded machine makes it longer, never shorter
  for (int i = 0; i < 3; ++i) best = std::min(best, Milliseconds(4, 25));
  EXPECT_GE(best, 26 * 4);
  EXPECT_LT(best, 25 * 8);
}

TEST(HostFedDevice, TheQueue_IsNoLongerThanItsDepth) {
  std::atomic<int> launched = 0, begun = 0, deepest = 0;
  HostFedDevice device(std::make_unique<EmulatedDevice>(0, 1), {0, 3}, {"compute", 0});
  for (int i = 0; i < 40; ++i) {
    device.Launch({nullptr, 0.001, {}, [&] { ++begun; }});
    deepest = std::max<int>(deepest, ++launched - begun);
  }
  device.Synchronize();
  EXPECT_EQ(begun, 40);
  EXPECT_LE(deepest, 3 + 1);  // one of them may be running, before its math
  EXPECT_GE(deepest, 2);
}

TEST(HostFedDevice, WhatMathThrows_ComesOutOfSynchronizeAndNotOfDrained) {
  HostFedDevice device(std::make_unique<EmulatedDevice>(0, 1), {0.001, 2}, {"compute", 0});
  const auto launch = [&] {
    device.Launch({nullptr, 0, {}, [] { throw std::runtime_error("x"); }});
  };
  launch();
  EXPECT_THROW(device.Synchronize(), std::runtime_error);
  device.Synchronize();
  launch();
  { const Drained drained(device); }
  device.Synchronize();
}

TEST(HostFedDevice, Drained_WaitsForWhatAWorkerThatLeavesHasLaunched) {
  HostFedDevice device(std::make_unique<EmulatedDevice>(0, 1), {0, 8}, {"compute", 0});
  bool done = false;
  try {
    const Drained drained(device);
    device.Launch({nullptr, 0.010, {}, [&] {
                     SleepUntilNs(NowNs() + 5 * kMs);
                     done = true;
                   }});
    throw std::runtime_error("leaves");
  } catch (const std::runtime_error&) {
    EXPECT_TRUE(done);
  }
}

TEST(HostFedDevice, Learns_WhatTheDeviceAloneLearns) {
  for (const Mode mode : {Mode::kSync, Mode::kMonolithic}) {
    Options options = Emulated(mode);
    options.math = true;
    options.model = {1, 16, 2, 16, 2};
    options.steps = 12;
    const auto expected = TrainAll(options);
    for (const uint64_t ahead : {0, 1, 100}) {
      options.host = {0.0005, ahead};
      const auto records = TrainAll(options);
      for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(records[i].loss, expected[i].loss) << i;
    }
  }
}

}  // namespace
}  // namespace poolscope::trainer
