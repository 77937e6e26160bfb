// Device activity by CUPTI, played by a stand-in library: what the shipped agent makes of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "tests/support/cupti_job.h"
#include "trace/clock.h"

namespace poolscope::support {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::IsEmpty;

using Fields = std::map<std::string, std::string>;

class Cupti : public CuptiJob {};

TEST_F(Cupti, Kernel_IsRecordedOnItsStreamWithWhatLaunchedIt) {
  const SessionView view = Play(
      "cuda; push step; push forward; launch cudaLaunchKernel_v7000 correlation=5; pop; pop;"
      "kernel _Z4gemmPf correlation=5 device=3 context=2 stream=9 at=500 for=120 grid_x=8 grid_z=2 "
      "block_x=32 block_y=4 registers=64 static_shared=1024 dynamic_shared=512 graph=6 "
      "graph_node=44");
  ASSERT_EQ(Activities(view).size(), 1u);
  const ViewedEvent kernel = Activities(view)[0];
  EXPECT_EQ(kernel.domain, "cuda");
  EXPECT_EQ(kernel.name, "_Z4gemmPf");
  EXPECT_EQ(kernel.end - kernel.start, 120'000u);
  EXPECT_EQ(kernel.flags, kRecordMonotonic);
  EXPECT_LT(kernel.end, static_cast<uint64_t>(MonotonicNs()));
  EXPECT_EQ(kernel.lane.kind, LaneKind::kDeviceStream);
  EXPECT_EQ(kernel.lane.device, 3u);
  EXPECT_EQ(kernel.lane.context, 2u);
  EXPECT_EQ(kernel.lane.number, 9u);
  EXPECT_EQ(view.strings.at(kernel.lane.name), "device 3 stream 9");
  Fields fields = kernel.payload.at("cuda.kernel");
  const uint64_t queued = std::stoull(fields.at("queued_ns"));
  EXPECT_LT(queued, static_cast<uint64_t>(MonotonicNs()));
  EXPECT_GT(queued + 60'000'000'000, kernel.end);
  fields.erase("queued_ns");
  const ViewedEvent* forward = view.Find("forward");
  ASSERT_NE(forward, nullptr);
  EXPECT_EQ(fields, (Fields{{"correlation", "5"},
                            {"launch_tid", std::to_string(view.pid)},
                            {"range", "forward"},
                            {"range_open_id", std::to_string(forward->id)},
                            {"blocks", "16"},
                            {"threads_per_block", "128"},
                            {"registers", "64"},
                            {"shared_bytes", "1536"},
                            {"graph", "6"},
                            {"graph_node", "44"}}));
  EXPECT_THAT(view.losses, IsEmpty());
  EXPECT_EQ(view.Count("CUPTI 130001"), 1u);
}

TEST_F(Cupti, LaunchingThread_IsTheOneThatCalled) {
  const SessionView view = Play(
      "cuda; push main; thread launch cudaLaunchKernel_v7000 correlation=1;"
      "launch cudaLaunchKernel_v7000 correlation=2; pop; kernel a correlation=1;"
      "kernel b correlation=2; kernel unlaunched correlation=3");
  const Fields a = view.Find("a")->payload.at("cuda.kernel");
  EXPECT_NE(a.at("launch_tid"), std::to_string(view.pid));
  EXPECT_NE(a.at("launch_tid"), "0");
  EXPECT_EQ(a.at("range"), "");  // another thread's range is not its own
  const Fields b = view.Find("b")->payload.at("cuda.kernel");
  EXPECT_EQ(b.at("launch_tid"), std::to_string(view.pid));
  EXPECT_EQ(b.at("range"), "main");
  const Fields unlaunched = view.Find("unlaunched")->payload.at("cuda.kernel");
  EXPECT_EQ(unlaunched.at("launch_tid"), "0");
  EXPECT_EQ(unlaunched.at("queued_ns"), "0");
}

TEST_F(Cupti, GraphNodes_AreTheirLaunchs) {
  const SessionView view = Play(
      "cuda; push replay; launch cudaGraphLaunch_v10000 correlation=8; pop;"
      "kernel first correlation=8 graph=2 graph_node=20; kernel second correlation=8 graph=2 "
      "graph_node=21; kernel second correlation=8 graph=2 graph_node=22");
  ASSERT_THAT(Names(view), ElementsAre("first", "second", "second"));
  for (const ViewedEvent& kernel : Activities(view)) {
    EXPECT_EQ(kernel.payload.at("cuda.kernel").at("range"), "replay");
    EXPECT_EQ(kernel.payload.at("cuda.kernel").at("graph"), "2");
  }
}

TEST_F(Cupti, Copies_SayFromWhereToWhere) {
  const SessionView view = Play(
      "cuda; push load; launch cudaMemcpyAsync_v3020 correlation=1; pop;"
      "copy correlation=1 bytes=4096 kind=1 from=1 to=3 device=2;"
      "copy bytes=10 kind=2 from=3 to=2 device=2; copy bytes=11 kind=8 from=3 to=4 device=2;"
      "copy bytes=12 kind=8 from=5 to=3 device=2;"
      "peer bytes=13 device=0 from_device=0 to_device=1; peer bytes=14 device=1 from_device=0 "
      "to_device=1; memset bytes=15");
  ASSERT_THAT(Names(view), ElementsAre("copy pageable to device", "copy device to pinned",
                                       "copy device to array", "copy managed to device",
                                       "copy device to peer", "copy peer to device", "memset"));
  const auto activities = Activities(view);
  const std::string host = std::to_string(kNoDevice);
  EXPECT_EQ(activities[0].payload.at("cuda.copy"),
            (Fields{{"correlation", "1"},
                    {"launch_tid", std::to_string(view.pid)},
                    {"range", "load"},
                    {"range_open_id", std::to_string(view.Find("load")->id)},
                    {"bytes", "4096"},
                    {"from", "pageable"},
                    {"to", "device"},
                    {"from_device", host},
                    {"to_device", "2"}}));
  EXPECT_EQ(activities[1].payload.at("cuda.copy").at("from_device"), "2");
  EXPECT_EQ(activities[1].payload.at("cuda.copy").at("to_device"), host);
  EXPECT_EQ(activities[4].payload.at("cuda.copy").at("from_device"), "0");
  EXPECT_EQ(activities[4].payload.at("cuda.copy").at("to_device"), "1");
  EXPECT_EQ(activities[6].payload.at("cuda.memset").at("bytes"), "15");
}

TEST_F(Cupti, Synchronizations_AreOfAStreamOrOfAContextWhole) {
  const SessionView view = Play(
      "cuda; context context=4 device=1; synchronize type=3 context=4 stream=9 for=300;"
      "synchronize type=4 context=4 stream=4294967295");
  ASSERT_THAT(Names(view), ElementsAre("synchronize stream", "synchronize context"));
  const auto activities = Activities(view);
  EXPECT_EQ(activities[0].lane.number, 9u);
  EXPECT_EQ(activities[0].lane.device, 1u);
  EXPECT_EQ(activities[0].payload.at("cuda.synchronization").at("kind"), "stream");
  EXPECT_EQ(activities[1].lane.number, ~uint64_t{0});
  EXPECT_EQ(view.strings.at(activities[1].lane.name), "device 1");
}

TEST_F(Cupti, Overheads_AreOnALaneOfTheirOwn) {
  for (const char* version : {"18", "130001"}) {
    Jobs jobs;
    const SessionView view =
        Play(jobs, std::string("version ") + version +
                       "; cuda; overhead type=327680 tid=55 for=400; overhead type=1; kernel k;"
                       "overhead type=12345678");
    ASSERT_THAT(Names(view),
                ElementsAre("lazy function loading", "driver compiler", "k", "unknown"));
    const ViewedEvent loading = Activities(view)[0];
    EXPECT_EQ(loading.end - loading.start, 400'000u);
    EXPECT_EQ(view.strings.at(loading.lane.name), "CUDA overhead");
    EXPECT_EQ(loading.lane.device, kNoDevice);
    EXPECT_EQ(loading.payload.at("cuda.overhead"),
              (Fields{{"kind", "lazy function loading"}, {"launch_tid", "55"}}));
    EXPECT_THAT(view.losses, IsEmpty());
  }
}

// --- Sampled counters ---

class CuptiSampling : public CuptiJob {
 protected:
  CuptiSampling() { jobs_.environment.push_back("POOLSCOPE_PM_SAMPLING_MS=1"); }

  // Values of the samples of each counter.
  static std::map<std::string, std::vector<double>> Samples(const SessionView& view) {
    std::map<std::string, std::vector<double>> samples;
    for (const ViewedEvent& event : view.events) {
      if (event.kind != RecordKind::kCounter) continue;
      EXPECT_EQ(event.domain, "cuda");
      EXPECT_EQ(event.flags, kRecordFloat | kRecordMonotonic);
      samples[event.name].push_back(std::bit_cast<double>(event.value));
    }
    return samples;
  }
};

TEST_F(CuptiSampling, Counters_AreRecordedWithTheirTimes) {
  const SessionView view = Play(
      "cuda; kernel k device=2; await_sampling; samples 3 value=50; wait 300; samples 1 value=80");
  const auto samples = Samples(view);
  ASSERT_EQ(samples.size(), 7u);
  EXPECT_THAT(samples.at("device 2.sm_active"),
              ElementsAre(DoubleEq(0.5), DoubleEq(0.5), DoubleEq(0.5), DoubleEq(0.8)));
  EXPECT_THAT(samples.at("device 2.dram_active"),
              ElementsAre(DoubleEq(0.51), DoubleEq(0.51), DoubleEq(0.51), DoubleEq(0.81)));
  EXPECT_THAT(samples.at("device 2.nvlink_send_bytes_per_second"), ElementsAre(54, 54, 54, 84));
  EXPECT_THAT(samples.at("device 2.pcie_write_bytes_per_second"), ElementsAre(56, 56, 56, 86));
  std::vector<uint64_t> times;
  for (const ViewedEvent& event : view.events) {
    if (event.name == "device 2.sm_active") times.push_back(event.start);
  }
  EXPECT_EQ(times[1] - times[0], 1'000'000u);
  EXPECT_GT(times[3] - times[2], 250'000'000u);
  EXPECT_THAT(view.losses, IsEmpty());
}

TEST_F(CuptiSampling, DeviceThatNeedsSeveralPasses_SamplesWhatMattersMost) {
  const auto samples =
      Samples(Play("sampling AD102; cuda; kernel k; await_sampling; samples 1 value=10"));
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_THAT(samples.at("device 0.sm_active"), ElementsAre(DoubleEq(0.1)));
  EXPECT_THAT(samples.at("device 0.dram_active"), ElementsAre(DoubleEq(0.11)));
  EXPECT_THAT(samples.at("device 0.tensor_active"), ElementsAre(DoubleEq(0.12)));
}

TEST_F(CuptiSampling, DeviceWithoutATimer_IsSampledByItsClock) {
  EXPECT_EQ(Samples(Play("sampling GA100; cuda; kernel k; await_sampling; samples 2 value=10"))
                .at("device 0.sm_active")
                .size(),
            2u);
}

TEST_F(CuptiSampling, Refused_IsSaidAndTheRestGoesOn) {
  const SessionView view = Play(
      "sampling refused; cuda; kernel k; wait 300; samples 1 value=10; kernel k correlation=2");
  EXPECT_THAT(Samples(view), IsEmpty());
  EXPECT_EQ(view.Count("device 0 is not sampled: cuptiPmSamplingEnable gave error 35"), 1u);
  EXPECT_EQ(Names(view).size(), 2u);
}

TEST_F(CuptiSampling, NotAskedFor_IsNotDone) {
  jobs_.environment.pop_back();
  EXPECT_THAT(Samples(Play("cuda; kernel k; wait 300; samples 1 value=10")), IsEmpty());
}

}  // namespace
}  // namespace poolscope::support
