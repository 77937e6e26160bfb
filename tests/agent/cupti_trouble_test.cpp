// Device activity when CUPTI, or what is around it, is not as one would wish: right data, or a
// counted event loss.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cupti_job.h"
#include "trace/clock.h"

namespace poolscope::support {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::Pair;

class CuptiTrouble : public CuptiJob {};

std::vector<std::string> Field(const std::vector<ViewedEvent>& kernels, const std::string& field) {
  std::vector<std::string> values;
  for (const ViewedEvent& kernel : kernels) {
    values.push_back(kernel.payload.at("cuda.kernel").at(field));
  }
  return values;
}

// --- Records ---

TEST_F(CuptiTrouble, RecordsInAnyOrder_AreRecordedAsTheyHappened) {
  const SessionView view = Play(
      "cuda; push a; launch cudaLaunchKernel_v7000 correlation=1; pop; push b;"
      "launch cudaLaunchKernel_v7000 correlation=2; pop; wait 300; kernel second correlation=2;"
      "deliver; kernel first correlation=1 at=300000");
  ASSERT_THAT(Names(view), ElementsAre("second", "first"));
  const auto kernels = Activities(view);
  EXPECT_LT(kernels[1].end, kernels[0].start);
  EXPECT_THAT(Field(kernels, "range"), ElementsAre("b", "a"));
}

TEST_F(CuptiTrouble, DuplicateRecords_AreRecordedOnce) {
  const SessionView view = Play(
      "cuda; freeze; kernel k correlation=4; kernel k correlation=4; deliver; wait 250;"
      "kernel k correlation=4; kernel k correlation=4 stream=8;"
      "kernel k correlation=4 graph_node=1; kernel k correlation=5; kernel k correlation=4 for=11");
  EXPECT_EQ(Names(view).size(), 5u);
  EXPECT_THAT(view.losses, IsEmpty());
}

TEST_F(CuptiTrouble, RecordsThatDifferInTheirTimesAlone_AreAllRecorded) {
  std::string lines = "cuda; freeze;";
  for (int i = 0; i < 300; ++i) lines += "kernel k at=" + std::to_string(1000 + i * 16) + ";";
  EXPECT_EQ(Names(Play(lines)).size(), 300u);
}

TEST_F(CuptiTrouble, ZeroAndReversedTimes_AreCounted) {
  const SessionView view = Play(
      "cuda; kernel none start=0 end=0; kernel running end=0; kernel reversed start=2000 end=1000;"
      "kernel good");
  EXPECT_THAT(Names(view), ElementsAre("good"));
  EXPECT_THAT(view.losses, ElementsAre(Pair("device_time", 3u)));
}

TEST_F(CuptiTrouble, TimesThatCannotBe_AreCounted) {
  const SessionView view = Play(
      "cuda; launch cudaLaunchKernel_v7000 correlation=1;"
      "kernel before_its_launch correlation=1 at=3000000; kernel future at=-100000000;"
      "kernel before_the_agent at=100000000000; kernel good correlation=1");
  EXPECT_THAT(Names(view), ElementsAre("good"));
  EXPECT_THAT(view.losses, ElementsAre(Pair("device_time", 3u)));
}

TEST_F(CuptiTrouble, UnknownKinds_AreCounted) {
  const SessionView view = Play("cuda; other kind=99; kernel good; other kind=99");
  EXPECT_THAT(Names(view), ElementsAre("good"));
  EXPECT_THAT(view.losses, ElementsAre(Pair("device_unknown", 2u)));
}

TEST_F(CuptiTrouble, KernelWithoutAName_IsRecorded) {
  EXPECT_THAT(Names(Play("cuda; kernel x unnamed=1")), ElementsAre("(unnamed kernel)"));
}

// --- Versions ---

TEST_F(CuptiTrouble, EveryKnownVersion_ReadsTheSame) {
  for (const char* version : {"18", "19", "20", "22", "23", "26", "28", "130001", "130500"}) {
    Jobs jobs;
    const SessionView view =
        Play(jobs, std::string("version ") + version +
                       "; cuda; context context=3 device=2; kernel k correlation=1 grid_x=77; copy "
                       "bytes=88 kind=2 from=3 to=1; memset bytes=99; peer bytes=66; synchronize; "
                       "kernel k2 correlation=2 graph=5");
    ASSERT_THAT(Names(view), ElementsAre("k", "copy device to pageable", "memset",
                                         "copy device to peer", "synchronize stream", "k2"))
        << version;
    const auto activities = Activities(view);
    EXPECT_EQ(activities[0].payload.at("cuda.kernel").at("blocks"), "77");
    EXPECT_EQ(activities[1].payload.at("cuda.copy").at("bytes"), "88");
    EXPECT_EQ(activities[2].payload.at("cuda.memset").at("bytes"), "99");
    EXPECT_EQ(activities[5].payload.at("cuda.kernel").at("graph"), "5");
    EXPECT_THAT(view.losses, IsEmpty());
    EXPECT_EQ(view.Count(std::string("CUPTI ") + version), 1u);
  }
}

TEST_F(CuptiTrouble, NewerVersionWithLongerRecords_ReadsTheSame) {
  const SessionView view = Play("version 990000; cuda; kernel a correlation=1; kernel b; memset");
  EXPECT_THAT(Names(view), ElementsAre("a", "b", "memset"));
  EXPECT_THAT(view.losses, IsEmpty());
}

TEST_F(CuptiTrouble, NewerVersionWithOtherRecords_IsCounted) {
  const SessionView view =
      Play("version 990000; kernel_bytes 120; cuda; repeat 5 kernel a; memset bytes=1");
  EXPECT_THAT(Names(view), ElementsAre("memset"));
  EXPECT_THAT(view.losses, ElementsAre(Pair("device_unknown", 5u)));
}

// --- Another subscriber ---

TEST_F(CuptiTrouble, HeldCallbacks_LeaveTheRecordsAndSayWhoHoldsThem) {
  const SessionView view = Play(
      "holder Nsight; cuda; push unseen; launch cudaLaunchKernel_v7000 correlation=1; pop;"
      "api correlation=1 at=400 for=10; kernel k correlation=1 at=200");
  ASSERT_THAT(Names(view), ElementsAre("k"));
  const auto kernel = Activities(view)[0].payload.at("cuda.kernel");
  EXPECT_EQ(kernel.at("launch_tid"), std::to_string(view.pid));
  EXPECT_EQ(kernel.at("range"), "");
  EXPECT_NE(kernel.at("queued_ns"), "0");
  EXPECT_EQ(view.Count("CUPTI 130001 without callbacks, which are held by Nsight"), 1u);
  EXPECT_THAT(result_.err, HasSubstr("held by Nsight"));
}

TEST_F(CuptiTrouble, OldCuptiWhoseCallbacksAreHeld_DoesNotSayByWhom) {
  const SessionView view = Play("version 18; holder; cuda; kernel k");
  EXPECT_EQ(view.Count("CUPTI 18 without callbacks, which are held by another tool"), 1u);
}

TEST_F(CuptiTrouble, LateCorrelation_IsJoined) {
  jobs_.environment.push_back("POOLSCOPE_CUPTI_FLUSH_MS=1000");
  const SessionView view = Play(
      "holder Nsight; cuda; freeze; kernel early correlation=1; kernel same correlation=2;"
      "api correlation=2 at=120; deliver; wait 100; api correlation=1 tid=4321 at=150; deliver;"
      "wait 100; kernel never correlation=3");
  const auto kernels = Activities(view);
  ASSERT_EQ(kernels.size(), 3u);
  for (const ViewedEvent& kernel : kernels) {
    const std::string tid = kernel.payload.at("cuda.kernel").at("launch_tid");
    EXPECT_EQ(tid, kernel.name == "early"  ? "4321"
                   : kernel.name == "same" ? std::to_string(view.pid)
                                           : "0");
  }
  EXPECT_THAT(view.losses, IsEmpty());
}

// --- The clock ---

TEST_F(CuptiTrouble, ClockOfItsOwn_IsConverted) {
  const SessionView view = Play("own_clock 1000000000; cuda; kernel k at=500 for=30");
  ASSERT_THAT(Names(view), ElementsAre("k"));
  EXPECT_EQ(Activities(view)[0].end - Activities(view)[0].start, 30'000u);
  const auto now = static_cast<uint64_t>(MonotonicNs());
  EXPECT_THAT(Activities(view)[0].start, AllOf(Ge(now - 60'000'000'000), Le(now)));
}

TEST_F(CuptiTrouble, ClockThatJumps_LeavesRightTimes) {
  const SessionView view = Play(
      "own_clock 1000000000; cuda; kernel a at=100; own_clock 5000; kernel b at=100; deliver; wait "
      "1000;"
      "kernel c at=100; own_clock 9000; kernel d at=100");
  ASSERT_THAT(Names(view), ElementsAre("a", "b", "c", "d"));
  const auto kernels = Activities(view);
  EXPECT_LT(kernels[0].start, kernels[1].start);
  EXPECT_LT(kernels[1].start + 200'000'000, kernels[2].start);
  EXPECT_LT(kernels[2].start, kernels[3].start);
  EXPECT_LT(kernels[3].start, kernels[0].start + 60'000'000'000);
  EXPECT_THAT(view.losses, IsEmpty());
}

// --- Buffers ---

TEST_F(CuptiTrouble, DroppedRecords_AreCounted) {
  const SessionView view = Play("cuda; kernel k; drop 7; wait 250; drop 8");
  EXPECT_THAT(Names(view), ElementsAre("k"));
  EXPECT_THAT(view.losses, ElementsAre(Pair("device_dropped", 15u)));
}

TEST_F(CuptiTrouble, MoreThanTheBuffersHold_IsCounted) {
  for (const char* version : {"130001", "18"}) {  // where no buffer may be had, and where one must
    Jobs jobs;
    jobs.environment = {"POOLSCOPE_CUPTI_BUFFERS=2", "POOLSCOPE_CUPTI_FLUSH_MS=10",
                        "POOLSCOPE_RING_BYTES=67108864"};
    const SessionView view =
        Play(jobs, std::string("version ") + version +
                       "; cuda; kernel k; stall; repeat 20000 kernel k; resume");
    ASSERT_EQ(view.losses.count("device_dropped"), 1u) << version;
    EXPECT_EQ(Names(view).size() + view.losses.at("device_dropped"), 20'001u);
    EXPECT_GT(Names(view).size(), 4000u);  // of two buffers
    EXPECT_EQ(view.losses.size(), 1u);
  }
}

TEST_F(CuptiTrouble, ManyBuffers_AreAllRecorded) {
  jobs_.environment.push_back("POOLSCOPE_RING_BYTES=67108864");
  const SessionView view = Play(
      "cuda; repeat 50000 kernel k correlation=1; wait 200; repeat 50000 kernel k "
      "correlation=50001");
  EXPECT_EQ(Names(view).size(), 100'000u);
  EXPECT_THAT(view.losses, IsEmpty());
}

// --- The process ---

TEST_F(CuptiTrouble, ProcessThatEndsAtOnce_LosesWhatWasNotFlushed) {
  jobs_.environment.push_back("POOLSCOPE_CUPTI_FLUSH_MS=10");
  const SessionView view = Play("cuda; kernel flushed; wait 1000; stall; kernel unflushed; _exit");
  EXPECT_THAT(Names(view), ElementsAre("flushed"));
}

TEST_F(CuptiTrouble, ForkedChild_RecordsNothingAndEndsWell) {
  const SessionView view = Play(
      "cuda; kernel parents; deliver; wait 250; fork; launch cudaLaunchKernel_v7000; kernel "
      "childs");
  EXPECT_THAT(Names(view), ElementsAre("parents"));
}

TEST_F(CuptiTrouble, ForkBeforeCuda_LeavesTheChildItsOwn) {
  Play(jobs_, "push parents; pop; fork; cuda; kernel childs", 2);
  const auto sessions = jobs_.Sessions();
  EXPECT_THAT(Names(sessions[0]), IsEmpty());
  EXPECT_THAT(Names(sessions[1]), ElementsAre("childs"));
}

TEST_F(CuptiTrouble, NoLibrary_LeavesTheRest) {
  jobs_.environment.push_back("POOLSCOPE_CUPTI=/nowhere/libcupti.so");
  const SessionView view = Play("cuda; push still; pop");
  EXPECT_EQ(view.Count("still"), 1u);
  EXPECT_THAT(result_.err, HasSubstr("no device activity: POOLSCOPE_CUPTI: /nowhere/libcupti.so"));
}

TEST_F(CuptiTrouble, LibraryOfTheProcess_IsTaken) {
  std::erase_if(jobs_.environment,
                [](const std::string& s) { return s.starts_with("POOLSCOPE_CUPTI="); });
  EXPECT_THAT(Names(Play("version 130001; cuda; kernel k")), ElementsAre("k"));
}

TEST_F(CuptiTrouble, ProcessWithoutDeviceActivity_GetsNoSession) {
  Play(jobs_, "cuda; wait 250", 0);
}

}  // namespace
}  // namespace poolscope::support
