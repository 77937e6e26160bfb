#include "collector/sampled_devices.h"

#include <time.h>

#include <fstream>

#include "collector/device_numbers.h"
#include "tests/collector/drain_fixture.h"
#include "trace/clock.h"

namespace poolscope {
namespace {

TEST(DeviceCounter, IsKnownByItsDomainAndName) {
  const auto counter = DeviceCounterOf("cuda", "device 12.tensor_active");
  ASSERT_TRUE(counter.has_value());
  EXPECT_EQ(counter->device, 12u);
  EXPECT_EQ(counter->metric, DeviceMetric::kTensor);
  for (const char* name : {"device 0", "device .sm_active", "device 0.sm", "device x.sm_active",
                           "device -1.sm_active", "device 99999999999.sm_active"}) {
    EXPECT_FALSE(DeviceCounterOf("cuda", name).has_value()) << name;
  }
  EXPECT_FALSE(DeviceCounterOf("", "device 0.sm_active").has_value());
}

TEST(SampledDevices, Window_IsGivenOnceItEndedAndAgainWhenItChanged) {
  SampledDevices devices(100);
  const DeviceId id{"", "s", 0};
  const auto add = [&](int64_t at_ns, double value) {
    devices.Add(id, {{0, DeviceMetric::kSm}, at_ns, value});
  };
  add(110, 0.2);
  add(120, 0.4);
  add(205, 1);
  EXPECT_TRUE(devices.Close(199).empty());
  auto windows = devices.Close(200);
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_EQ(windows[0].start_ns, 100);
  EXPECT_NEAR(*windows[0].means[0], 0.3, 1e-12);
  EXPECT_FALSE(windows[0].means[1].has_value());
  EXPECT_TRUE(devices.Close(250).empty());
  add(199, 0.9);  // late
  windows = devices.Close(250);
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_NEAR(*windows[0].means[0], 0.5, 1e-12);
  EXPECT_EQ(devices.Close(INT64_MAX).size(), 1u);
}

TEST(DeviceNumbers, AreNvmlsElseTheFirstFreeOnes) {
  DeviceNumbers numbers;
  numbers.See({0, "GPU-a", "A100"});
  numbers.See({1, "GPU-b-c", "H100"});
  EXPECT_EQ(numbers.Of({"b-c", "", 0}).number, 1);
  EXPECT_EQ(numbers.Of({"b-c", "", 0}).uuid, "GPU-b-c");
  EXPECT_EQ(numbers.Of({"b-c", "", 0}).name, "H100");
  EXPECT_EQ(numbers.Of({"mig", "", 0}).number, 2);
  EXPECT_EQ(numbers.Of({"mig", "", 0}).uuid, "mig");
  EXPECT_EQ(numbers.Of({"", "one", 0}).number, 3);
  EXPECT_EQ(numbers.Of({"", "two", 7}).number, 7);
  EXPECT_EQ(numbers.Of({"", "one", 0}).number, 3);
}

// Processes whose devices are sampled, on a host whose NVML knows two.
class SampledDrain : public Drain {
 protected:
  SampledDrain() {
    std::ofstream(files_.path() / "devices") << "0 gpu 75\n1 gpu 50\n";
    setenv("POOLSCOPE_NVML", POOLSCOPE_STANDIN, 1);
    setenv("POOLSCOPE_STANDIN_NVML", (files_.path() / "devices").c_str(), 1);
    // The beginning of a window that is not closed while this test goes on.
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t epoch_ns = now.tv_sec * 1'000'000'000 + now.tv_nsec;
    window_ns_ = (epoch_ns / kSecond + 3) * kSecond;
    base_ = MonotonicNs() + window_ns_ - epoch_ns;
  }
  ~SampledDrain() override {
    unsetenv("POOLSCOPE_NVML");
    unsetenv("POOLSCOPE_STANDIN_NVML");
  }
  // What the process calls `device` is NVML's `number`.
  void Describe(FakeSession& session, uint64_t device, int number) {
    const uint32_t cuda = session.Domain("cuda");
    const uint32_t schema = session.Schema("cuda.device", {{session.Name("device"), uint16_t{1}, 0},
                                                           {session.Name("uuid"), uint16_t{4}, 0}});
    const std::string uuid = "0000000" + std::to_string(number) + "-0000-0000-0000-000000000000";
    const uint64_t words[] = {schema | uint64_t{2} << 32, device, session.Name(uuid)};
    session.Mark(7, MonotonicNs(), session.Name("device"), 0, cuda, words);
  }
  void Sample(FakeSession& session, const char* counter, int at_ms, double value) {
    const uint32_t cuda = session.Domain("cuda");
    session.Sample(7, base_ + int64_t{at_ms} * 1'000'000, session.CounterName(counter, cuda, true),
                   value, cuda);
  }
  // Rounds until NVML has been read: numbers are known from then on.
  void AwaitNvml(Collector& collector) {
    for (int i = 0; i < 2000 && Windows("nvml").empty(); ++i) {
      DrainOnce(collector);
      usleep(5000);
    }
  }
  std::vector<DeviceWindowRow> Windows(const std::string& source) {
    std::vector<DeviceWindowRow> rows;
    auto store = OpenStore();
    if (!store.ok()) return rows;
    const auto run = store->FindRun("");
    if (!run.ok()) return rows;
    const auto all = store->DeviceWindows(run->run_id, {});
    for (const DeviceWindowRow& row : *all) {
      if (row.source == source) rows.push_back(row);
    }
    return rows;
  }

  static constexpr int64_t kSecond = 1'000'000'000;
  int64_t window_ns_, base_;
};

TEST_F(SampledDrain, WindowIsTheMeanOverProcessesThatMeanTheSameDevice) {
  auto one = std::make_unique<FakeSession>(Session(1));
  auto two = std::make_unique<FakeSession>(Session(2));
  auto three = std::make_unique<FakeSession>(Session(3));
  auto collector = Open();
  Describe(*one, 0, 1);
  Describe(*two, 3, 1);
  AwaitNvml(*collector);
  Sample(*one, "device 0.sm_active", 100, 0.2);
  Sample(*one, "device 0.sm_active", 200, 0.4);
  Sample(*two, "device 3.sm_active", 300, 0.9);
  Sample(*one, "device 0.pcie_read_bytes_per_second", 200, 3e9);
  Sample(*three, "device 0.dram_active", 100, 0.75);  // tells no UUID
  DrainOnce(*collector);
  EXPECT_TRUE(Windows("pm_sampling").empty());
  for (auto* session : {&one, &two, &three}) (*session)->Exit();
  DrainOnce(*collector);
  const auto rows = Windows("pm_sampling");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].device, 1);
  EXPECT_EQ(rows[0].uuid, "GPU-00000001-0000-0000-0000-000000000000");
  EXPECT_EQ(rows[0].start_ns, window_ns_);
  EXPECT_NEAR(*rows[0].sm_ratio, 0.5, 1e-12);
  EXPECT_EQ(rows[0].pcie_received_bytes_per_second, 3'000'000'000);
  EXPECT_FALSE(rows[0].dram_ratio.has_value());
  EXPECT_EQ(rows[1].device, 2);  // beside those of NVML
  EXPECT_EQ(rows[1].uuid, "");
  EXPECT_EQ(rows[1].dram_ratio, 0.75);
  EXPECT_GE(Windows("nvml").size(), 2u);
}

TEST_F(SampledDrain, CollectorStartedAgain_GoesOnWithTheWindowsSamples) {
  FakeSession session(Session());
  auto collector = Open();
  Describe(session, 0, 1);
  Sample(session, "device 0.sm_active", 100, 0.2);
  DrainOnce(*collector);
  collector.reset();
  collector = Open();
  Sample(session, "device 0.sm_active", 300, 0.6);
  session.KillWriter();
  DrainOnce(*collector);
  const auto rows = Windows("pm_sampling");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_NEAR(*rows[0].sm_ratio, 0.4, 1e-12);
}

}  // namespace
}  // namespace poolscope
