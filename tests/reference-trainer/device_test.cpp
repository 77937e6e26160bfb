#include "reference-trainer/device.h"

#include <gtest/gtest.h>
#include <poolscope/annotate.h>

#include <algorithm>
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

TEST(SharedDevice, ThatWorkersOfBothPoolsShare_DoesOneOperationAfterTheOther) {
  UseFineTimers();
  const auto turns = std::make_shared<EmulatedDevice::Turns>();
  EmulatedDevice one(0, 1, turns), other(0, 2, turns);
  const int64_t begin = NowNs();
  std::thread thread([&] { one.Run(0.020, {}); });
  other.Run(0.020, {});
  thread.join();
  EXPECT_GE(NowNs() - begin, 40'000'000);
}

TEST(SharedDevice, IsThatOfTheWorkersPool_AlsoWhereOthersJoin) {
  Options options;
  options.devices.compute = std::get<DeviceSpec>(ParseDeviceSpec("emulated@0"));
  options.devices.update = std::get<DeviceSpec>(ParseDeviceSpec("emulated@1"));
  options.schedule.joins = {{3, 5}};
  Job job(options, nullptr);
  const auto compute = job.MakeDevice(options.devices.compute, 0);
  const auto joiner = job.MakeDevice(options.devices.compute, 3);
  const auto update = job.MakeDevice(options.devices.update, 2);
  int64_t joiner_ns = 0, update_ns = 0;
  std::vector<std::thread> threads;
  UseFineTimers();
  threads.emplace_back([&] { compute->Run(0.200, {}); });
  SleepUntilNs(NowNs() + 50'000'000);
  threads.emplace_back([&] {
    joiner->Run(0.001, {});
    joiner_ns = NowNs();
  });
  threads.emplace_back([&] {
    update->Run(0.001, {});
    update_ns = NowNs();
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(update_ns, joiner_ns);  // who shares waits for the end of what runs
}

TEST(CpuDevice, ReportsTheThreadsCpuTimeNotItsSleep) {
  CpuDevice device;
  const uint64_t cpu_ns = device.Run(0, [] { SleepUntilNs(NowNs() + 50'000'000); });
  EXPECT_LT(cpu_ns, 25'000'000u);
}

}  // namespace
}  // namespace poolscope::trainer
