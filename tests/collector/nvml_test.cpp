#include "collector/nvml.h"

#include <cstdlib>
#include <fstream>

#include "collector/device_sampler.h"
#include "collector/metrics.h"
#include "collector/nvml_abi.h"
#include "tests/collector/drain_fixture.h"
#include "trace/clock.h"
#if __has_include(<nvml.h>)
#include <nvml.h>
#endif

namespace poolscope {
namespace {

// A host whose devices the stand-in makes up.
class NvmlTest : public Drain {
 protected:
  NvmlTest() {
    setenv("POOLSCOPE_NVML", POOLSCOPE_STANDIN, 1);
    setenv("POOLSCOPE_STANDIN_NVML", (files_.path() / "devices").c_str(), 1);
  }
  ~NvmlTest() override {
    unsetenv("POOLSCOPE_NVML");
    unsetenv("POOLSCOPE_STANDIN_NVML");
  }
  // Whole or not at all, since another thread reads it.
  void Devices(const char* text) {
    std::ofstream(files_.path() / "next") << text;
    std::filesystem::rename(files_.path() / "next", files_.path() / "devices");
  }
};

constexpr char kTwo[] =
    "0 gpu 75\n0 memory 25\n0 used 2000\n0 total 8000\n0 sm 1500\n0 mem 2600\n"
    "0 sent 10\n0 received 20\n0 nvlink_sent 100\n0 nvlink_received 200\n"
    "1 used 5\n1 total 6\n";

TEST_F(NvmlTest, Reading_SaysWhatEachDeviceSupports) {
  Devices(kTwo);
  auto nvml = Nvml::Load();
  ASSERT_TRUE(nvml.ok()) << nvml.error().message;
  const auto devices = (*nvml)->Read();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].uuid, "GPU-00000000-0000-0000-0000-000000000000");
  EXPECT_EQ(devices[0].name, "Stand-in");
  EXPECT_EQ(devices[0].sm_ratio, 0.75);
  EXPECT_EQ(devices[0].dram_ratio, 0.25);
  EXPECT_EQ(devices[0].memory_used_bytes, 2000);
  EXPECT_EQ(devices[0].memory_total_bytes, 8000);
  EXPECT_EQ(devices[0].sm_hertz, 1'500'000'000);
  EXPECT_EQ(devices[0].memory_hertz, 2'600'000'000);
  EXPECT_EQ(devices[0].pcie_sent_bytes, 10 * 1024);
  EXPECT_EQ(devices[0].pcie_received_bytes, 20 * 1024);
  EXPECT_EQ(devices[0].nvlink_sent_bytes, 100 * 1024);
  EXPECT_EQ(devices[0].nvlink_received_bytes, 200 * 1024);
  EXPECT_EQ(devices[1].memory_used_bytes, 5);
  EXPECT_FALSE(devices[1].sm_ratio.has_value());
  EXPECT_FALSE(devices[1].sm_hertz.has_value());
  EXPECT_FALSE(devices[1].nvlink_sent_bytes.has_value());
}

TEST_F(NvmlTest, LibraryThatIsMissingOrHasNoDriver_IsAnErrorThatSaysSo) {
  unsetenv("POOLSCOPE_STANDIN_NVML");
  auto nvml = Nvml::Load();
  ASSERT_FALSE(nvml.ok());
  EXPECT_NE(nvml.error().message.find("driver"), std::string::npos);
  setenv("POOLSCOPE_NVML", "/none.so", 1);
  nvml = Nvml::Load();
  ASSERT_FALSE(nvml.ok());
  EXPECT_NE(nvml.error().message.find("/none.so"), std::string::npos);
  EXPECT_TRUE(DeviceSampler(1'000'000).Take().empty());
}

TEST_F(NvmlTest, Samples_CountNvlinkBytesBetweenThem) {
  Devices(kTwo);
  DeviceSampler sampler(1'000'000);
  std::vector<DeviceSampler::Sample> samples;
  const auto wait = [&] {
    samples.clear();
    while (samples.size() < 2) {
      for (auto& sample : sampler.Take()) samples.push_back(std::move(sample));
    }
  };
  wait();
  EXPECT_FALSE(samples[0].devices[0].nvlink_sent_bytes.has_value());
  EXPECT_EQ(samples[1].devices[0].nvlink_sent_bytes, 0);
  Devices("0 nvlink_sent 150\n0 nvlink_received 1\n");  // and a counter that began again
  int64_t sent = 0;
  for (int i = 0; i < 1000 && sent == 0; ++i) {
    wait();
    for (const auto& sample : samples) {
      if (sample.devices.size() == 1) sent += sample.devices[0].nvlink_sent_bytes.value_or(0);
    }
  }
  EXPECT_EQ(sent, 50 * 1024);
}

TEST_F(NvmlTest, LiveRun_HasWindowsOfItsHostsDevicesAndMetricsTheirSource) {
  Devices(kTwo);
  FakeSession session(Session());
  session.Mark(7, MonotonicNs(), session.Name("m"));
  Metrics metrics("test");
  auto collector = std::move(*Collector::Open(options_, &metrics));
  std::vector<DeviceWindowRow> rows;
  for (int i = 0; i < 2000 && rows.empty(); ++i) {
    DrainOnce(*collector);
    auto store = OpenStore();
    rows = *store->DeviceWindows(store->FindRun("")->run_id, {});
    usleep(5000);
  }
  ASSERT_GE(rows.size(), 2u);
  EXPECT_EQ(rows[0].source, "nvml");
  EXPECT_EQ(rows[0].uuid, "GPU-00000000-0000-0000-0000-000000000000");
  EXPECT_EQ(rows[0].sm_ratio, 0.75);
  EXPECT_EQ(rows[0].memory_bytes, 8000);
  EXPECT_EQ(rows[1].device, 1);
  EXPECT_FALSE(rows[1].sm_ratio.has_value());
  const std::string text = metrics.Serialize();
  EXPECT_NE(text.find("poolscope_device_sm_ratio{device=\"0\",source=\"nvml\"} 0.75"),
            std::string::npos);
  EXPECT_EQ(text.find("poolscope_device_sm_ratio{device=\"1\""), std::string::npos);
  EXPECT_NE(text.find("poolscope_device_pcie_bytes_per_second{device=\"0\",direction=\"sent\","
                      "source=\"nvml\"} 10240"),
            std::string::npos)
      << text;
}

TEST(DeviceMetrics, WhatTheHardwareSampledStandsInForTheDriversWord) {
  Metrics metrics("test");
  DeviceSampler::Sample driver;
  driver.devices.resize(2);
  driver.devices[1].device = 1;
  for (DeviceReading& device : driver.devices) {
    device.sm_ratio = 0.75;
    device.memory_used_bytes = 5;
    device.pcie_sent_bytes = 6;
  }
  metrics.Take(driver);
  DeviceWindowRow sampled{"run", 0, "host", 1, "pm_sampling", 2'000'000'000};
  sampled.sm_ratio = 0.25;
  sampled.tensor_ratio = 0.125;
  sampled.nvlink_sent_bytes = 10;
  metrics.Take(sampled);
  metrics.Take(driver);
  const std::string text = metrics.Serialize();
  const auto has = [&](const std::string& line) { return text.find(line) != std::string::npos; };
  EXPECT_TRUE(has("poolscope_device_sm_ratio{device=\"0\",source=\"nvml\"} 0.75"));
  EXPECT_TRUE(has("poolscope_device_sm_ratio{device=\"1\",source=\"pm_sampling\"} 0.25"));
  EXPECT_TRUE(has("poolscope_device_tensor_ratio{device=\"1\",source=\"pm_sampling\"} 0.125"));
  EXPECT_TRUE(
      has("poolscope_device_nvlink_bytes_per_second{device=\"1\",direction=\"sent\","
          "source=\"pm_sampling\"} 5"));
  EXPECT_FALSE(has("poolscope_device_sm_ratio{device=\"1\",source=\"nvml\"}"));
  // What was not sampled is still the driver's.
  EXPECT_TRUE(has("poolscope_device_memory_used_bytes{device=\"1\",source=\"nvml\"} 5"));
  EXPECT_TRUE(
      has("poolscope_device_pcie_bytes_per_second{device=\"1\",direction=\"sent\","
          "source=\"nvml\"} 6"))
      << text;
}

#if __has_include(<nvml.h>)
TEST(NvmlAbi, Declarations_AreThoseOfTheHeader) {
  EXPECT_EQ(sizeof(nvml::Utilization), sizeof(nvmlUtilization_t));
  EXPECT_EQ(sizeof(nvml::Memory), sizeof(nvmlMemory_t));
  EXPECT_EQ(offsetof(nvml::Memory, used), offsetof(nvmlMemory_t, used));
  EXPECT_EQ(sizeof(nvml::FieldValue), sizeof(nvmlFieldValue_t));
  EXPECT_EQ(offsetof(nvml::FieldValue, value), offsetof(nvmlFieldValue_t, value));
  EXPECT_EQ(offsetof(nvml::FieldValue, result), offsetof(nvmlFieldValue_t, nvmlReturn));
  EXPECT_EQ(nvml::kClockSm, static_cast<int>(NVML_CLOCK_SM));
  EXPECT_EQ(nvml::kClockMemory, static_cast<int>(NVML_CLOCK_MEM));
  EXPECT_EQ(nvml::kPcieSent, static_cast<int>(NVML_PCIE_UTIL_TX_BYTES));
  EXPECT_EQ(nvml::kFieldNvlinkSent, unsigned{NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX});
  EXPECT_EQ(nvml::kFieldNvlinkReceived, unsigned{NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX});
}
#endif

}  // namespace
}  // namespace poolscope
