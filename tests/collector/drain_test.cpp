#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <map>
#include <string>

#include "tests/collector/drain_fixture.h"
#include "trace/clock.h"

namespace poolscope {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;

TEST_F(Drain, EventsOfEveryKind_AreStoredAsWritten) {
  FakeSession session(Session());
  const uint32_t domain = session.Domain("training");
  session.Push(7, 10 * kSecond, session.Name("outer"), 3, domain);
  session.Push(7, 11 * kSecond, session.Name("inner"), 4, domain);
  session.Pop(7, 12 * kSecond);
  session.Pop(7, 15 * kSecond);
  session.Mark(7, 13 * kSecond, session.Name("tick"), 9, domain);
  session.Sample(7, 14 * kSecond, session.CounterName("loss", domain, true), 2.5);
  const uint64_t range = session.Start(7, 9 * kSecond, session.Name("async"));
  session.End(7, 20 * kSecond, range);
  auto collector = Open();
  EXPECT_EQ(DrainOnce(*collector), 5u);

  auto stored = Stored();
  std::sort(stored.begin(), stored.end());
  ASSERT_EQ(stored.size(), 5u);
  EXPECT_EQ(stored[0].name, "async");
  EXPECT_EQ(stored[0].event.duration_ns, 11 * kSecond);
  EXPECT_EQ(stored[0].event.flags, kEventStartEnd);
  EXPECT_EQ(stored[1].name, "outer");
  EXPECT_EQ(stored[1].event.duration_ns, 5 * kSecond);
  EXPECT_EQ(stored[1].event.depth, 0);
  EXPECT_EQ(stored[1].event.category, 3u);
  EXPECT_EQ(stored[2].name, "inner");
  EXPECT_EQ(stored[2].event.depth, 1);
  EXPECT_EQ(stored[2].event.start_ns - stored[1].event.start_ns, kSecond);
  EXPECT_EQ(stored[3].event.kind, EventKind::kMark);
  EXPECT_EQ(stored[4].event.kind, EventKind::kCounter);
  EXPECT_EQ(stored[4].event.value, std::bit_cast<uint64_t>(2.5));
}

TEST_F(Drain, ActivitiesOfALane_AreEventsOfAThreadOfItsName) {
  FakeSession session(Session());
  session.Lane(3, {session.Name("GPU 0 stream 7"), LaneKind::kDeviceStream, 0, 1, 7});
  const uint32_t kernel = session.Name("gemm");
  session.Activity(7, 3, 12 * kSecond, 13 * kSecond, kernel, kRecordMonotonic);
  session.Activity(7, 3, 10 * kSecond, 11 * kSecond, kernel, kRecordMonotonic);      // in any order
  session.Activity(7, 3, 11 * kSecond, int64_t{1} << 61, kernel, kRecordMonotonic);  // not to come
  session.Push(7, 10 * kSecond, session.Name("launch"));
  session.Pop(7, 12 * kSecond);
  auto collector = Open();
  DrainOnce(*collector);

  auto store = OpenStore();
  ASSERT_TRUE(store.ok());
  const auto run = store->FindRun("");
  ASSERT_TRUE(run.ok());
  const auto threads = store->Threads(run->run_id);
  ASSERT_TRUE(threads.ok());
  std::map<int64_t, std::string> names;
  for (const ThreadRow& row : *threads) names[row.thread_id] = row.name;
  std::map<std::string, std::vector<Event>> events;  // by thread
  (void)store->ReadEvents(run->run_id, {}, [&](const TrackRow& track, const EventBatch& batch) {
    auto& of = events[names[track.thread_id]];
    of.insert(of.end(), batch.events.begin(), batch.events.end());
    return true;
  });
  ASSERT_EQ(events["GPU 0 stream 7"].size(), 2u);
  ASSERT_EQ(events[""].size(), 1u);
  // CLOCK_MONOTONIC and ticks of this session are one timeline.
  const Event& launch = events[""][0];
  EXPECT_EQ(events["GPU 0 stream 7"][0].start_ns - launch.start_ns, 2 * kSecond);
  EXPECT_EQ(events["GPU 0 stream 7"][0].duration_ns, kSecond);
  EXPECT_EQ(events["GPU 0 stream 7"][1].start_ns, launch.start_ns);
  EXPECT_EQ(events["GPU 0 stream 7"][1].flags, 0);
  const auto losses = store->EventLosses(run->run_id);
  ASSERT_TRUE(losses.ok());
  ASSERT_EQ(losses->size(), 1u);
  EXPECT_EQ((*losses)[0].cause, "undecodable");
}

TEST_F(Drain, PayloadStringsAndSchemas_AreTranslatedToTheStore) {
  FakeSession session(Session());
  const uint32_t field = session.Name("codec");
  const uint32_t schema = session.Schema("custom", {{field, 4, 0}, {session.Name("n"), 1, 0}});
  const uint64_t payload[] = {schema | uint64_t{2} << 32, session.Name("bf16"), 77};
  session.Mark(7, kSecond, session.Name("m"), 0, 0, payload);
  auto collector = Open();
  DrainOnce(*collector);

  auto store = OpenStore();
  ASSERT_TRUE(store.ok());
  const auto id = store->FindString("custom");
  ASSERT_TRUE(id.ok());
  const auto fields = store->Schema(*id);
  ASSERT_TRUE(fields.ok());
  ASSERT_EQ(fields->size(), 2u);
  EXPECT_EQ((*fields)[0].type, 's');
  const auto run = store->FindRun("");
  ASSERT_TRUE(run.ok());
  int seen = 0;
  (void)store->ReadEvents(run->run_id, {}, [&](const TrackRow&, const EventBatch& batch) {
    for (const Event& event : batch.events) {
      const auto values = batch.Payload(event, *id);
      EXPECT_EQ(values.size(), 2u);
      EXPECT_EQ(*store->String(static_cast<uint32_t>(values[0])), "bf16");
      EXPECT_EQ(values[1], 77u);
      ++seen;
    }
    return true;
  });
  EXPECT_EQ(seen, 1);
}

TEST_F(Drain, RingOfManyRounds_LosesNothingAndRepeatsNothing) {
  FakeSession session(Session());
  auto collector = Open();
  DrainOnce(*collector);  // drop-newest from here on
  const uint32_t name = session.Name("r");
  int64_t made = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 1000; ++i, ++made) {
      ASSERT_TRUE(session.Range(7, 1000 + made * 10, 1005 + made * 10, name));
    }
    DrainOnce(*collector);
  }
  const auto stored = Stored();
  ASSERT_EQ(stored.size(), static_cast<size_t>(made));
  for (size_t i = 1; i < stored.size(); ++i) {
    ASSERT_EQ(stored[i].event.start_ns - stored[i - 1].event.start_ns, 10);
  }
}

TEST_F(Drain, FullRing_LossEqualsTheCounter) {
  FakeSession session(Session());
  auto collector = Open();
  DrainOnce(*collector);
  const uint32_t name = session.Name("r");
  int64_t kept = 0;
  constexpr int64_t kMade = 5000;
  for (int64_t i = 0; i < kMade; ++i) kept += session.Range(7, 100 + i, 101 + i, name);
  ASSERT_LT(kept, kMade);
  DrainOnce(*collector);
  EXPECT_EQ(Stored().size(), static_cast<size_t>(kept));
  auto store = OpenStore();
  const auto losses = store->EventLosses(store->FindRun("")->run_id);
  ASSERT_TRUE(losses.ok());
  ASSERT_EQ(losses->size(), 1u);
  EXPECT_EQ((*losses)[0].cause, "ring_full");
  EXPECT_EQ((*losses)[0].events, kMade - kept);
  EXPECT_EQ((*losses)[0].last_ns - (*losses)[0].first_ns, kMade - kept - 1);
}

TEST_F(Drain, BeforeACollectorCame_TheNewestEventsAreKept) {
  FakeSession session(Session());
  const uint32_t name = session.Name("r");
  constexpr int64_t kMade = 5000;
  for (int64_t i = 0; i < kMade; ++i) session.Range(7, 100 + i * 10, 105 + i * 10, name);
  auto collector = Open();
  DrainOnce(*collector);
  const auto stored = Stored();
  auto store = OpenStore();
  const auto losses = store->EventLosses(store->FindRun("")->run_id);
  ASSERT_EQ(losses->size(), 1u);
  EXPECT_EQ((*losses)[0].cause, "overwritten");
  EXPECT_EQ(static_cast<int64_t>(stored.size()) + *(*losses)[0].events, kMade);
  EXPECT_EQ(stored.back().event.start_ns - stored.front().event.start_ns,
            static_cast<int64_t>(stored.size() - 1) * 10);
}

TEST_F(Drain, CollectorGoneBetweenCommitAndRaise_SuccessorRepeatsNothing) {
  FakeSession session(Session());
  const uint32_t name = session.Name("r");
  {
    auto collector = Open();
    DrainOnce(*collector);
    for (int i = 0; i < 100; ++i) session.Range(7, 100 + i, 101 + i, name);
    DrainOnce(*collector);
  }
  // As if the read position had never been raised.
  session.slot(0).read_position.store(0);
  for (int i = 0; i < 50; ++i) session.Range(7, 1000 + i, 1001 + i, name);
  auto collector = Open();
  DrainOnce(*collector);
  EXPECT_EQ(Stored().size(), 150u);
  EXPECT_EQ(session.slot(0).read_position.load(), session.slot(0).write_position.load());
}

TEST_F(Drain, KilledWriter_RangesOpenAtDeathAreEventsOnce) {
  auto session = std::make_unique<FakeSession>(Session());
  auto collector = Open();
  session->Triple(5 * kSecond, 1'000'000 * kSecond);
  session->Push(7, 10 * kSecond, session->Name("outer"));
  session->Push(7, 20 * kSecond, session->Name("inner"));
  session->Start(7, 15 * kSecond, session->Name("async"));
  session->Mark(7, 30 * kSecond, session->Name("last"));
  session->KillWriter();
  DrainOnce(*collector);
  EXPECT_FALSE(std::filesystem::exists(session->path()));

  auto stored = Stored();
  std::sort(stored.begin(), stored.end());
  ASSERT_EQ(stored.size(), 4u);
  EXPECT_EQ(stored[0].name, "outer");
  EXPECT_EQ(stored[0].event.flags, kEventOpenAtDeath);
  EXPECT_EQ(stored[0].event.duration_ns, 20 * kSecond);
  EXPECT_EQ(stored[1].name, "async");
  EXPECT_EQ(stored[1].event.flags, kEventOpenAtDeath | kEventStartEnd);
  EXPECT_EQ(stored[2].name, "inner");
  EXPECT_EQ(stored[2].event.depth, 1);
  auto store = OpenStore();
  const auto run = store->FindRun("");
  EXPECT_TRUE(run->ended);
  EXPECT_EQ(store->OpenRanges(run->run_id)->size(), 3u);
  EXPECT_EQ(store->Processes(run->run_id)->front().end_reason, "killed");
}

TEST_F(Drain, KilledBeyondItsStack_TheRangesThatNoTableHeldAreCounted) {
  FakeSession session(Session());
  auto collector = Open();
  session.Lose(LossCause::kOpenTableFull, 2, 10);  // two that had ended before
  for (uint32_t i = 0; i < kMaxOpenRanges; ++i) session.Push(7, 11 + i, session.Name("deep"));
  session.slot(0).open_overflow = 36;
  DrainOnce(*collector);
  session.KillWriter();
  DrainOnce(*collector);
  EXPECT_EQ(Stored().size(), size_t{kMaxOpenRanges});
  auto store = OpenStore();
  const auto losses = store->EventLosses(store->FindRun("")->run_id);
  ASSERT_EQ(losses->size(), 1u);
  EXPECT_EQ((*losses)[0].cause, "open_table_full");
  EXPECT_EQ((*losses)[0].events, 38);
}

TEST_F(Drain, RangeKilledBetweenItsEndRecordAndItsPop_IsCountedOnce) {
  FakeSession session(Session());
  {
    auto collector = Open();
    session.Range(7, 5, 6, session.Name("before"));
    session.Push(7, 10, session.Name("caught"));
    session.Pop(7, 20);
    session.slot(0).open_depth.store(1);  // the end record is out, the stack still names it
    const uint64_t range = session.Start(7, 12, session.Name("async"));
    session.End(7, 22, range);
    reinterpret_cast<ProcessRange*>(reinterpret_cast<char*>(&session.header()) + kProcessRangesAt)
        ->id.store(range);
    DrainOnce(*collector);
  }
  session.KillWriter();
  auto collector = Open();  // a successor: it never saw the end records
  DrainOnce(*collector);
  EXPECT_EQ(Stored().size(), 3u);
  auto store = OpenStore();
  EXPECT_TRUE(store->OpenRanges(store->FindRun("")->run_id)->empty());
}

TEST_F(Drain, Exit_IsNotAKill) {
  FakeSession session(Session());
  auto collector = Open();
  session.Mark(7, 10, session.Name("m"));
  session.Exit();
  DrainOnce(*collector);
  auto store = OpenStore();
  const auto processes = store->Processes(store->FindRun("")->run_id);
  ASSERT_EQ(processes->size(), 1u);
  EXPECT_EQ(processes->front().end_reason, "exited");
  EXPECT_EQ(processes->front().command, "fake job");
}

TEST_F(Drain, SeveralProcessesOfARun_AreOneRun) {
  FakeSession a(Session(1));
  FakeSession b(Session(2));
  a.Mark(7, 10, a.Name("m"));
  b.Mark(7, 10, b.Name("m"));
  auto collector = Open();
  EXPECT_EQ(DrainOnce(*collector), 2u);
  auto store = OpenStore();
  EXPECT_EQ(store->Runs()->size(), 1u);
  EXPECT_EQ(store->Processes(store->FindRun("")->run_id)->size(), 2u);
}

TEST_F(Drain, AnnotatedRun_PoolsWorkersLinksAndSettingsAreStored) {
  FakeSession session(Session());
  const uint32_t domain = session.Domain("poolscope");
  session.Resource(domain, 7, "worker compute 2 compute");
  session.Resource(domain, 8, "worker update 0 update");
  session.Resource(domain, 0, "link gradients compute update 8 2");
  session.Resource(domain, 0, "setting mode async");
  session.Resource(domain, 0, "worker compute x compute");           // no number: left out
  session.Resource(domain, 0, "worker compute 4294967295 compute");  // -1 of 32 bits
  for (const uint32_t tid : {9, 10}) session.Resource(domain, tid, "worker my pool 0 compute");
  session.ThreadName(7, "compute/2");
  session.Mark(7, 10, session.Name("m"));
  auto collector = Open();
  DrainOnce(*collector);
  auto store = OpenStore();
  const std::string run = store->FindRun("")->run_id;
  EXPECT_EQ(store->Pools(run)->size(), 2u);
  ASSERT_EQ(store->Workers(run)->size(), 2u);
  EXPECT_EQ(store->Workers(run)->front().worker_index, 2);
  ASSERT_EQ(store->Links(run)->size(), 1u);
  EXPECT_EQ(store->Links(run)->front().capacity, 8);
  EXPECT_EQ(store->Links(run)->front().lanes, 2);
  std::map<std::string, std::string> told;
  const auto settings = store->Settings(run);
  for (const SettingRow& row : *settings) told[row.key] = row.value;
  EXPECT_EQ(told["mode"], "async");
  EXPECT_EQ(told["unread.1"], "worker compute x compute");
  EXPECT_EQ(told["unread.2"], "worker compute 4294967295 compute");
  EXPECT_EQ(told["unread.3"], "worker my pool 0 compute");
  EXPECT_FALSE(told.contains("unread.4")) << "each is kept once";
  const auto threads = store->Threads(run);
  for (const ThreadRow& row : *threads) {
    if (row.tid == 7) {
      EXPECT_EQ(row.name, "compute/2");
      EXPECT_EQ(row.pool, "compute");
    }
  }
}

TEST_F(Drain, SecondCollector_IsRefusedByRunFolderAndByStore) {
  auto collector = Open();
  auto second = Collector::Open(options_);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, HasSubstr("another collector already drains"));
  TempFolder other(true);
  CollectorOptions options = options_;
  options.run_folders = {other.path()};
  second = Collector::Open(options);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, HasSubstr("another collector already writes the store"));
}

TEST_F(Drain, CleanLeave_ReturnsTheRingsToOverwriting) {
  FakeSession session(Session());
  auto collector = Open();
  session.Mark(7, 10, session.Name("m"));
  DrainOnce(*collector);
  EXPECT_EQ(session.header().ring_mode.load(), static_cast<uint32_t>(RingMode::kDropNewest));
  session.Mark(7, 11, session.Name("m"));
  ASSERT_TRUE(collector->Leave().ok());
  EXPECT_EQ(session.header().ring_mode.load(), static_cast<uint32_t>(RingMode::kOverwriteOldest));
  EXPECT_EQ(Stored().size(), 2u);
}

TEST_F(Drain, SlotOfAnExitedThread_IsReusedWithoutMixingThreads) {
  FakeSession session(Session());
  auto collector = Open();
  for (uint32_t tid = 100; tid < 120; ++tid) {
    session.Mark(tid, tid, session.Name("m"));
    session.ThreadExit(tid);
    DrainOnce(*collector);
  }
  EXPECT_EQ(session.header().slots_used.load(), 1u);
  auto store = OpenStore();
  EXPECT_EQ(Stored().size(), 20u);
  EXPECT_EQ(store->Threads(store->FindRun("")->run_id)->size(), 20u);
}

TEST_F(Drain, WorkerWhoseThreadsHaveExited_HasNoWindowsAfterItsLastEvent) {
  FakeSession session(Session());
  const uint32_t domain = session.Domain("poolscope");
  for (const uint32_t tid : {7, 8}) session.Resource(domain, tid, "worker compute 0 compute");
  session.Resource(domain, 9, "worker update 0 update");
  const int64_t now = MonotonicNs();
  session.Triple(now, 1'700'000'000'000'000'000);
  const auto work = [&](uint32_t tid, int64_t from_s, int64_t to_s) {
    session.Range(tid, now + from_s * kSecond, now + to_s * kSecond, session.Name("forward"), 1,
                  domain);
  };
  auto collector = Open();
  work(7, -10, -9);
  work(8, -10, 0);
  work(9, -10, 0);
  session.ThreadExit(7);
  session.ThreadExit(8);
  DrainOnce(*collector);  // its newest events
  DrainOnce(*collector);  // that nothing comes after them
  usleep(1'600'000);
  DrainOnce(*collector);
  ASSERT_TRUE(collector->Leave().ok());
  auto store = OpenStore();
  std::map<std::string, int64_t> wall;
  const auto windows = store->WorkerWindows(store->FindRun("")->run_id, {});
  for (const WorkerWindowRow& row : *windows) wall[row.pool] += row.window_ns;
  EXPECT_NEAR(static_cast<double>(wall["compute"]), 10 * kSecond, 0.01 * kSecond);
  EXPECT_GT(wall["update"], 10 * kSecond + kSecond / 20);
}

TEST_F(Drain, ManyExitedThreads_FillTheSessionAsFullRingsDo) {
  FakeSession session(Session());
  auto collector = Open();
  DrainOnce(*collector);
  for (uint32_t tid = 100; tid < 164; ++tid) {
    session.Mark(tid, tid, session.Name("m"));
    session.ThreadExit(tid);
  }
  EXPECT_GE(collector->Fill(), 64.0 / kMaxThreads);
  DrainOnce(*collector);
  EXPECT_EQ(collector->Fill(), 0);
}

TEST_F(Drain, StoreRemovedOrRenamed_IsAnErrorAndANewStoreBegins) {
  FakeSession session(Session());
  auto collector = Open();
  session.Mark(7, 10, session.Name("first"));
  DrainOnce(*collector);
  const auto moved = files_.path() / "moved.db";
  std::filesystem::rename(options_.store, moved);
  session.Mark(7, 11, session.Name("second"));
  const auto drained = collector->Drain();
  ASSERT_FALSE(drained.ok());
  EXPECT_THAT(drained.error().message, HasSubstr("renamed"));
  collector.reset();
  collector = Open();
  DrainOnce(*collector);
  ASSERT_EQ(Stored().size(), 1u);
  EXPECT_EQ(Stored()[0].name, "second");
  ASSERT_EQ(ReadAll(moved).size(), 1u) << "the renamed store is whole by itself";
  EXPECT_EQ(ReadAll(moved)[0].name, "first");

  std::filesystem::remove(options_.store);
  EXPECT_FALSE(collector->Drain().ok());
}

TEST_F(Drain, DepthThatIsNoNumber_IsAnEventButNoDepth) {
  FakeSession session(Session());
  session.Triple(kSecond, 1'000'000 * kSecond);
  const uint32_t domain = session.Domain("poolscope");
  const uint32_t depth = session.CounterName("gradients.depth", domain, true);
  session.Resource(domain, 7, "worker compute 0 compute");
  session.Resource(domain, 0, "link gradients compute update 4 1");
  const int64_t now = MonotonicNs() - 3 * kSecond;
  session.Range(7, now, now + kSecond, session.Name("forward"), 1, domain);
  session.Sample(7, now, depth, 2);
  for (const double odd : {std::nan(""), HUGE_VAL, -HUGE_VAL, -1.0}) {
    session.Sample(7, now + kSecond / 2, depth, odd);
  }
  session.Exit();
  auto collector = Open();
  DrainOnce(*collector);
  EXPECT_EQ(Stored().size(), 6u);
  auto store = OpenStore();
  const auto windows = store->LinkWindows(store->FindRun("")->run_id, {});
  ASSERT_FALSE(windows->empty());
  double highest = 0;
  for (const LinkWindowRow& row : *windows) {
    EXPECT_TRUE(std::isfinite(row.depth_mean)) << row.depth_mean;
    highest = std::max(highest, row.depth_mean);
  }
  EXPECT_EQ(highest, 2);
}

}  // namespace
}  // namespace poolscope
