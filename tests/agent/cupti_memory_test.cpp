// What a process allocates on devices and releases, by CUPTI as a stand-in library plays it: the
// events, and the counters that say how much it holds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cupti_job.h"

namespace poolscope::support {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

using Fields = std::map<std::string, std::string>;

class CuptiMemory : public CuptiJob {
 protected:
  // Values of each counter, in the order of their times, which is that of recording.
  static std::map<std::string, std::vector<uint64_t>> Counters(const SessionView& view) {
    std::map<std::string, std::vector<uint64_t>> values;
    uint64_t before = 0;
    for (const ViewedEvent& event : view.events) {
      if (event.kind != RecordKind::kCounter) continue;
      EXPECT_EQ(event.domain, "cuda");
      EXPECT_EQ(event.flags, kRecordMonotonic);
      EXPECT_GE(event.start, before);
      before = event.start;
      values[event.name].push_back(event.value);
    }
    return values;
  }
};

TEST_F(CuptiMemory, Allocation_IsRecordedWithWhoMadeItAndItsRelease) {
  const SessionView view = Play(
      "cuda; push load; launch cudaMalloc_v3020 correlation=5; pop; push drop; launch "
      "cudaFree_v3020 correlation=6; pop; allocate address=4096 bytes=1000 device=3 context=2 "
      "correlation=5 at=500; release address=4096 bytes=1000 device=3 context=2 correlation=6");
  ASSERT_THAT(Names(view), ElementsAre("allocate device", "release device"));
  const ViewedEvent allocated = Activities(view)[0], released = Activities(view)[1];
  EXPECT_EQ(allocated.start, allocated.end);
  EXPECT_EQ(view.strings.at(allocated.lane.name), "device 3 memory");
  EXPECT_EQ(allocated.lane.device, 3u);
  EXPECT_EQ(allocated.payload.at("cuda.memory"),
            (Fields{{"correlation", "5"},
                    {"launch_tid", std::to_string(view.pid)},
                    {"range", "load"},
                    {"range_open_id", std::to_string(view.Find("load")->id)},
                    {"bytes", "1000"},
                    {"kind", "device"},
                    {"address", "4096"},
                    {"stream", std::to_string(~uint64_t{0})},
                    {"pool", "0"},
                    {"pool_bytes", "0"},
                    {"variable", ""}}));
  EXPECT_EQ(released.payload.at("cuda.memory").at("range"), "drop");
  EXPECT_EQ(released.payload.at("cuda.memory").at("address"), "4096");
  EXPECT_THAT(Counters(view),
              ElementsAre(Pair("device 3.allocated_bytes", ElementsAre(1000, 0)),
                          Pair("device 3.allocated_device_bytes", ElementsAre(1000, 0))));
  EXPECT_THAT(view.losses, IsEmpty());
  EXPECT_EQ(view.Count("CUPTI 130001"), 1u);
}

TEST_F(CuptiMemory, Kinds_AreCountedApart) {
  const SessionView view = Play(
      "cuda; freeze; allocate address=1 bytes=100 at=900; allocate address=2 bytes=20 memory=2 "
      "at=800; allocate address=3 bytes=3000 memory=5 at=700; allocate lookup_table address=4 "
      "bytes=4 memory=6 at=600; allocate shared address=5 bytes=50000 memory=7 at=500;"
      "allocate address=6 bytes=7 async=1 stream=9 pool=77 pool_type=1 pool_bytes=2000000 at=400;"
      "allocate address=7 bytes=600000 memory=4 device=1 at=300; allocate address=8 bytes=8 "
      "memory=2 device=4294967295 context=4294967295 at=200");
  EXPECT_THAT(Names(view), ElementsAre("allocate device", "allocate pinned", "allocate managed",
                                       "allocate device static", "allocate managed static",
                                       "allocate pool", "allocate array", "allocate pinned"));
  const auto activities = Activities(view);
  EXPECT_EQ(activities[3].payload.at("cuda.memory").at("variable"), "lookup_table");
  EXPECT_EQ(activities[5].payload.at("cuda.memory").at("stream"), "9");
  EXPECT_EQ(activities[5].payload.at("cuda.memory").at("pool"), "77");
  EXPECT_EQ(activities[5].payload.at("cuda.memory").at("pool_bytes"), "2000000");
  EXPECT_EQ(view.strings.at(activities[7].lane.name), "host memory");
  EXPECT_THAT(Counters(view),
              ElementsAre(Pair("device 0.allocated_bytes", ElementsAre(100, 104, 111)),
                          Pair("device 0.allocated_device_bytes", ElementsAre(100, 104)),
                          Pair("device 0.allocated_managed_bytes", ElementsAre(3000, 53000)),
                          Pair("device 0.allocated_pinned_bytes", ElementsAre(20)),
                          Pair("device 0.allocated_pool_bytes", ElementsAre(7)),
                          Pair("device 0.reserved_pool_bytes", ElementsAre(2000000)),
                          Pair("device 1.allocated_bytes", ElementsAre(600000)),
                          Pair("device 1.allocated_device_bytes", ElementsAre(600000)),
                          Pair("host.allocated_pinned_bytes", ElementsAre(8))));
}

TEST_F(CuptiMemory, Pools_AreCountedByWhatTheyReserve) {
  const SessionView view = Play(
      "cuda; freeze; launch cudaMallocAsync_v11020 correlation=4; pool operation=1 pool=7 at=900;"
      "pool operation=1 pool=8 device=1 at=850; allocate address=1 bytes=10 async=1 pool=7 "
      "pool_type=1 pool_bytes=64 correlation=4 at=800; release address=1 async=1 pool=7 "
      "pool_type=1 pool_bytes=64 at=700; pool operation=3 pool=7 pool_bytes=32 at=600;"
      "pool operation=2 pool=7 pool_bytes=32 at=500; pool operation=1 pool_type=2 pool=9 "
      "pool_bytes=99 at=400");
  EXPECT_THAT(Names(view), ElementsAre("create pool", "create pool", "allocate pool",
                                       "release pool", "trim pool", "destroy pool", "create pool"));
  EXPECT_EQ(Activities(view)[2].payload.at("cuda.memory").at("launch_tid"),
            std::to_string(view.pid));
  EXPECT_THAT(Counters(view).at("device 0.reserved_pool_bytes"), ElementsAre(64, 32, 0));
  EXPECT_THAT(Counters(view).at("device 0.allocated_pool_bytes"), ElementsAre(10, 0));
}

// --- Trouble ---

TEST_F(CuptiMemory, RecordsOutOfOrder_CountAsTheyHappened) {
  const SessionView view = Play(
      "cuda; freeze; release address=1 bytes=100 at=100; allocate address=2 bytes=20 at=200;"
      "allocate address=1 bytes=100 at=300");
  EXPECT_THAT(Counters(view).at("device 0.allocated_bytes"), ElementsAre(100, 120, 20));
}

TEST_F(CuptiMemory, ReleaseThatComesLongBeforeItsAllocation_IsPairedWithIt) {
  jobs_.environment.push_back("POOLSCOPE_CUPTI_FLUSH_MS=10");
  const SessionView view = Play(
      "cuda; freeze; allocate address=1 bytes=7 at=500; release address=2 at=100; deliver;"
      "wait 300; allocate address=2 bytes=100 at=200; deliver; wait 100; allocate address=1 "
      "bytes=70 at=300; deliver; wait 100; release address=1 at=400");
  // 2 came and went unseen; 1 was released between its two allocations, as is told last.
  EXPECT_THAT(Counters(view).at("device 0.allocated_bytes"), ElementsAre(7, 0, 70));
  EXPECT_EQ(Names(view).size(), 5u);
  EXPECT_THAT(view.losses, IsEmpty());
}

TEST_F(CuptiMemory, DuplicatesAndStrangers_CountOnceOrNotAtAll) {
  const SessionView view = Play(
      "cuda; freeze; allocate address=1 bytes=100 at=900; allocate address=1 bytes=100 at=900;"
      "release address=99 bytes=5 at=800; release address=0 at=700; release address=1 at=600;"
      "release address=1 at=600; release address=1 at=500");
  EXPECT_THAT(Counters(view).at("device 0.allocated_bytes"), ElementsAre(100, 0));
  EXPECT_EQ(Names(view).size(), 5u);
}

TEST_F(CuptiMemory, BadRecords_AreCountedAndLeaveTheCountersRight) {
  const SessionView view = Play(
      "cuda; freeze; allocate address=1 bytes=10 at=900; allocate address=2 bytes=5 start=0;"
      "allocate address=3 bytes=5 at=-100000000; allocate address=4 bytes=5 operation=9;"
      "release address=2 at=100; pool operation=0 pool=3; allocate address=5 bytes=3 memory=77 "
      "at=50");
  EXPECT_THAT(Names(view), ElementsAre("allocate device", "release device", "allocate unknown"));
  EXPECT_THAT(Counters(view),
              ElementsAre(Pair("device 0.allocated_bytes", ElementsAre(10)),
                          Pair("device 0.allocated_device_bytes", ElementsAre(10))));
  EXPECT_THAT(view.losses, ElementsAre(Pair("device_time", 2u), Pair("device_unknown", 2u)));
}

TEST_F(CuptiMemory, ManyAllocations_AllComeAndGo) {
  jobs_.environment.push_back("POOLSCOPE_RING_BYTES=67108864");
  const SessionView view = Play(
      "cuda; repeat 20000 allocate address=4096 bytes=512 correlation=1; repeat 20000 allocate "
      "address=900000007 bytes=739 correlation=30000; wait 300; repeat 20000 release address=4096 "
      "bytes=512 correlation=60000; repeat 20000 release address=900000007 bytes=739 "
      "correlation=90000");
  const auto counters = Counters(view).at("device 0.allocated_bytes");
  ASSERT_EQ(counters.size(), 80'000u);
  EXPECT_EQ(counters[39'999], 20'000u * (512 + 739));
  EXPECT_EQ(counters.back(), 0u);
  EXPECT_THAT(view.losses, IsEmpty());
}

TEST_F(CuptiMemory, LibraryThatKnowsNoMemoryRecords_RecordsTheRest) {
  const SessionView view =
      Play("refuse 49; refuse 50; cuda; allocate address=1 bytes=1; pool pool=1; kernel k");
  EXPECT_THAT(Names(view), ElementsAre("k"));
  EXPECT_EQ(view.Count("CUPTI 130001 without memory"), 1u);
  EXPECT_THAT(result_.err, HasSubstr("without memory"));
}

TEST_F(CuptiMemory, EveryVersion_ReadsTheSame) {
  for (const char* version : {"18", "22", "26", "130001", "130500", "990000"}) {
    Jobs jobs;
    const SessionView view =
        Play(jobs, std::string("version ") + version +
                       "; cuda; freeze; pool operation=1 pool=6 pool_bytes=11 at=300; allocate v "
                       "address=1 bytes=77 async=1 pool=6 pool_type=1 pool_bytes=12 at=200; "
                       "kernel k");
    EXPECT_THAT(Names(view), ElementsAre("create pool", "allocate pool", "k")) << version;
    EXPECT_THAT(Counters(view),
                ElementsAre(Pair("device 0.allocated_bytes", ElementsAre(77)),
                            Pair("device 0.allocated_pool_bytes", ElementsAre(77)),
                            Pair("device 0.reserved_pool_bytes", ElementsAre(11, 12))));
    EXPECT_THAT(view.losses, IsEmpty());
  }
}

TEST_F(CuptiMemory, HeldCallbacks_LeaveTheThread) {
  const SessionView view = Play(
      "holder Nsight; cuda; freeze; allocate address=1 bytes=3 correlation=1 at=100; api "
      "correlation=1 at=120 for=60; deliver; wait 300");
  EXPECT_EQ(Activities(view)[0].payload.at("cuda.memory").at("launch_tid"),
            std::to_string(view.pid));
  EXPECT_THAT(Counters(view).at("device 0.allocated_bytes"), ElementsAre(3));
}

}  // namespace
}  // namespace poolscope::support
