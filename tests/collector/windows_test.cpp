#include <rapidcheck.h>

#include <numeric>

#include "tests/collector/run_of_two.h"

namespace poolscope {
namespace {

int64_t Of(const StateNs& states, State state) { return states[static_cast<size_t>(state)]; }

TEST(MessageLife, Wait_IsSplitAlongTheMessageThatEndedIt) {
  MessageLife life;
  life.stages[static_cast<size_t>(Stage::kEncode)] = {50, 60};
  life.stages[static_cast<size_t>(Stage::kQueued)] = {60, 75};
  life.stages[static_cast<size_t>(Stage::kWire)] = {75, 95};
  const WaitParts parts = life.Split(10, 100);
  EXPECT_EQ(parts.upstream_busy_ns, 40);
  EXPECT_EQ(parts.encode_ns, 10);
  EXPECT_EQ(parts.queued_ns, 15);
  EXPECT_EQ(parts.wire_ns, 20);
  EXPECT_EQ(parts.unattributed_ns, 5);
  const WaitParts late = life.Split(80, 90);
  EXPECT_EQ(late.wire_ns, 10);
  EXPECT_EQ(late.upstream_busy_ns, 0);
}

TEST(MessageLife, AnyStagesAndAnyWait_PartsAddUpAndNoneIsNegative) {
  EXPECT_TRUE(rc::check([] {
    MessageLife life;
    for (auto& span : life.stages) {
      const int begin = *rc::gen::inRange(1, 100);
      if (*rc::gen::arbitrary<bool>()) span = {begin, begin + *rc::gen::inRange(1, 50)};
    }
    const int begin = *rc::gen::inRange(0, 150);
    const int end = begin + *rc::gen::inRange(0, 100);
    const WaitParts parts = life.Split(begin, end);
    RC_ASSERT(parts.upstream_busy_ns + parts.link_ns() + parts.unattributed_ns == end - begin);
    RC_ASSERT(parts.upstream_busy_ns >= 0);
    RC_ASSERT(parts.queued_ns >= 0);
    RC_ASSERT(parts.encode_ns >= 0);
    RC_ASSERT(parts.wire_ns >= 0);
    RC_ASSERT(parts.decode_ns >= 0);
    RC_ASSERT(parts.unattributed_ns >= 0);
  }));
}

TEST_F(Windows, WorkWaitAndIdle_AddUpToTheWindow) {
  builder_.Add(At(Category::kWork, compute_, 0, 400));
  builder_.Add(At(Category::kWaitLink, compute_, 400, 900, weights_));
  const auto windows = Close(1000);
  ASSERT_EQ(windows.size(), 1u);
  ASSERT_EQ(windows[0].workers.size(), 1u) << "only the worker that did something";
  const StateNs& states = windows[0].workers[0].state_ns;
  EXPECT_EQ(Of(states, State::kBusy), 400 * kMs);
  EXPECT_EQ(Of(states, State::kWaitLink), 500 * kMs);
  EXPECT_EQ(Of(states, State::kIdle), 100 * kMs);
  ASSERT_EQ(windows[0].pools.size(), 1u);
  EXPECT_DOUBLE_EQ(windows[0].pools[0].busy_ratio, 0.4);
  ASSERT_EQ(windows[0].worker_links.size(), 1u);
  EXPECT_EQ(windows[0].worker_links[0].unattributed_ns, 500 * kMs) << "its message is not known";
}

TEST_F(Windows, HostWork_IsHostBoundOnlyWhereTheDeviceIsEmpty) {
  // Two threads of one worker: the host launches from 0 to 500, the device works in between.
  builder_.Add(At(Category::kHost, compute_, 0, 500));
  builder_.Add(At(Category::kWork, compute_, 100, 400));
  builder_.Add(At(Category::kInput, compute_, 450, 600));
  const auto windows = Close(1000);
  ASSERT_EQ(windows.size(), 1u);
  const StateNs& states = windows[0].workers[0].state_ns;
  EXPECT_EQ(Of(states, State::kBusy), 300 * kMs);
  EXPECT_EQ(Of(states, State::kHostBound), 200 * kMs);
  EXPECT_EQ(Of(states, State::kInput), 100 * kMs);
  EXPECT_EQ(Of(states, State::kIdle), 400 * kMs);
}

TEST_F(Windows, Occupancy_IsTheShareOfItsWorkThatAWorkerIsBusy) {
  builder_.Add(At(Category::kWork, compute_, 0, 1500));
  builder_.Add(OccupancySample{compute_, kT0 + 600 * kMs, 0.25});  // comes before an older one
  builder_.Add(OccupancySample{compute_, kT0 + 200 * kMs, 0.5});
  builder_.Add(At(Category::kWork, update_, 0, 1000));  // says nothing: all of it
  const auto windows = Close(2000);
  const StateNs& first = windows[0].workers[0].state_ns;
  EXPECT_EQ(Of(first, State::kBusy), (200 + 200 + 100) * kMs);
  EXPECT_EQ(Of(first, State::kIdle), 500 * kMs);
  EXPECT_EQ(Of(windows[0].workers[1].state_ns, State::kBusy), 1000 * kMs);
  const StateNs& second = windows[1].workers[0].state_ns;
  EXPECT_EQ(Of(second, State::kBusy), 125 * kMs) << "the last share goes on";
  EXPECT_EQ(Of(second, State::kIdle), 875 * kMs);
}

TEST_F(Windows, AnEngine_DividesItsTimeAmongWhatItWorksOn) {
  builder_.Add(OccupancySample{compute_, kT0, 0.5});
  for (const int64_t slice : {0, 500}) {
    for (const uint64_t micro_batch : {1, 2, 3, 4}) {  // at once, the last one later
      if (slice == 0 && micro_batch == 4) continue;
      Activity work = At(Category::kWork, compute_, slice, slice + 500);
      work.step = 7;
      work.micro_batch = micro_batch;
      builder_.Add(work);
    }
  }
  Activity discard = At(Category::kDiscard, -1, 1000, 1000, gradients_);
  discard.source = 0;
  discard.step = 7;
  discard.micro_batch = 4;
  builder_.Add(discard);
  const StateNs& states = Close(1000).at(0).workers[0].state_ns;
  // None of three, then one of four, of half the capacity.
  EXPECT_EQ(Of(states, State::kBusyDiscarded), 500 * kMs / 2 / 4);
  EXPECT_EQ(Of(states, State::kBusy), 500 * kMs - 500 * kMs / 2 / 4);
  EXPECT_EQ(Of(states, State::kIdle), 500 * kMs);
}

TEST_F(Windows, RangeOverSeveralWindows_CountsInEach) {
  builder_.Add(At(Category::kWork, compute_, 500, 2500));
  const auto windows = Close(3000);
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_EQ(Of(windows[0].workers[0].state_ns, State::kBusy), 500 * kMs);
  EXPECT_EQ(Of(windows[1].workers[0].state_ns, State::kBusy), 1000 * kMs);
  EXPECT_EQ(Of(windows[2].workers[0].state_ns, State::kBusy), 500 * kMs);
}

TEST_F(Windows, WaitStillOpen_CountsUpToNowAndIsAttributedWhenItEnds) {
  builder_.SetOpen("s", {At(Category::kWaitLink, compute_, 200, 1600, weights_)});
  auto windows = Close(1000);
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_EQ(Of(windows[0].workers[0].state_ns, State::kWaitLink), 800 * kMs);
  EXPECT_EQ(windows[0].worker_links[0].unattributed_ns, 800 * kMs);

  builder_.SetOpen("s", {});
  Activity wait = At(Category::kWaitLink, compute_, 200, 1900, weights_);
  wait.source = 0;
  wait.sequence = 7;
  builder_.Add(wait);
  builder_.Add(Transfer(Stage::kQueued, weights_, 700, 800, 0, 7));
  builder_.Add(Transfer(Stage::kWire, weights_, 800, 1900, 0, 7));
  windows = Close(2000);
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[1].start_ns, kT0) << "the first window once more";
  const WorkerLinkWindowRow& first = windows[1].worker_links[0];
  EXPECT_EQ(first.worker_index, 0);
  EXPECT_EQ(first.wait_ns, 800 * kMs);
  EXPECT_EQ(first.upstream_busy_ns, 500 * kMs);
  EXPECT_EQ(first.queued_ns, 100 * kMs);
  EXPECT_EQ(first.wire_ns, 200 * kMs);
  EXPECT_EQ(first.unattributed_ns, 0);
  // 300 of 1000 ms of one worker; the other had not begun.
  EXPECT_DOUBLE_EQ(windows[1].links[1].exposed_share, 0.3);
  EXPECT_EQ(windows[0].worker_links[0].wire_ns, 900 * kMs);
}

TEST_F(Windows, WaitForWeightsThatAreStillComputed_IsNotTheLinks) {
  Activity wait = At(Category::kWaitLink, compute_, 0, 440, weights_);
  wait.source = 0;
  wait.sequence = 1;
  builder_.Add(wait);
  builder_.Add(Transfer(Stage::kWire, weights_, 400, 440, 0, 1));
  const auto windows = Close(1000);
  EXPECT_EQ(windows[0].worker_links[0].upstream_busy_ns, 400 * kMs);
  EXPECT_DOUBLE_EQ(windows[0].links[1].exposed_share, 0.04);
}

TEST_F(Windows, Transfers_CountWhereTheWireEndsAndTheSenderHasTheTraffic) {
  builder_.Add(At(Category::kWork, compute_, 0, 100));
  builder_.Add(At(Category::kWork, update_, 0, 100));
  Activity wire = Transfer(Stage::kWire, gradients_, 900, 1100, 0, 1);
  wire.raw_bytes = 1000;
  wire.wire_bytes = 500;
  builder_.Add(wire);
  const auto windows = Close(2000);
  EXPECT_EQ(windows[0].links[0].transfers, 0);
  EXPECT_EQ(windows[1].links[0].transfers, 1);
  EXPECT_EQ(windows[1].links[0].raw_bytes, 1000);
  EXPECT_EQ(windows[1].links[0].wire_bytes, 500);
  EXPECT_EQ(windows[1].links[0].stage_ns[static_cast<size_t>(Stage::kWire)], 200 * kMs);
  EXPECT_DOUBLE_EQ(windows[0].links[0].traffic_share, 0.1);
  EXPECT_DOUBLE_EQ(windows[1].links[0].traffic_share, 0.1);
}

TEST_F(Windows, OwnEncodeAndDecode_AreLinkStatesAndTraffic) {
  Activity encode = Transfer(Stage::kEncode, gradients_, 0, 100, 0, 1);
  encode.on_thread = true;
  encode.worker = compute_;
  builder_.Add(encode);
  Activity decode = Transfer(Stage::kDecode, gradients_, 200, 300, 0, 1);
  decode.on_thread = true;
  decode.worker = update_;
  builder_.Add(decode);
  Activity apply = Transfer(Stage::kApply, gradients_, 300, 450, 0, 1);
  apply.on_thread = true;
  apply.worker = update_;
  builder_.Add(apply);
  const auto windows = Close(1000);
  EXPECT_EQ(Of(windows[0].workers[0].state_ns, State::kBlockedLink), 100 * kMs);
  EXPECT_EQ(Of(windows[0].workers[1].state_ns, State::kWaitLink), 100 * kMs);
  EXPECT_EQ(Of(windows[0].workers[1].state_ns, State::kBusy), 150 * kMs);
  EXPECT_EQ(windows[0].worker_links[1].decode_ns, 100 * kMs);
  EXPECT_EQ(windows[0].worker_links[1].traffic_ns, 100 * kMs);
  EXPECT_EQ(windows[0].worker_links[0].traffic_ns, 100 * kMs);
}

TEST_F(Windows, Faults_AreCountedAndWhatIsSentAgainCrossesTheWire) {
  Activity wire = Transfer(Stage::kWire, gradients_, 0, 900, 0, 1);
  wire.raw_bytes = wire.wire_bytes = 1000;
  builder_.Add(wire);
  for (const auto& [kind, at] : {std::pair{FaultKind::kCorrupt, 100},
                                 {FaultKind::kRetry, 200},
                                 {FaultKind::kRetry, 400},
                                 {FaultKind::kLost, 1500}}) {
    Activity fault = At(Category::kFault, -1, at, at, gradients_);
    fault.fault = kind;
    fault.wire_bytes = 300;
    builder_.Add(fault);
  }
  const auto windows = Close(2000);
  EXPECT_EQ(windows[0].links[0].wire_bytes, 1600);
  EXPECT_EQ(windows[0].links[0].faults, (std::array<int64_t, 4>{2, 1, 0, 0}));
  EXPECT_EQ(windows[1].links[0].faults, (std::array<int64_t, 4>{0, 0, 0, 1}));
}

TEST_F(Windows, Depth_IsTimeWeighted) {
  builder_.Add(At(Category::kWork, compute_, 0, 100));
  builder_.Add(DepthSample{gradients_, kT0 + 250 * kMs, 4});
  builder_.Add(DepthSample{gradients_, kT0 + 500 * kMs, 2});
  const auto windows = Close(2000);
  EXPECT_DOUBLE_EQ(windows[0].links[0].depth_mean, 0.25 * 4 + 0.5 * 2);
  EXPECT_DOUBLE_EQ(windows[0].links[0].depth_max, 4);
  EXPECT_DOUBLE_EQ(windows[1].links[0].depth_mean, 2);
  EXPECT_EQ(windows[0].links[0].capacity, 4);
}

TEST_F(Windows, DepthOfSeveralProcesses_IsTheirSum) {
  builder_.Add(At(Category::kWork, compute_, 0, 100));
  builder_.Add(DepthSample{gradients_, kT0, 2}, "a");
  builder_.Add(DepthSample{gradients_, kT0 + 500 * kMs, 3}, "b");
  builder_.Add(DepthSample{gradients_, kT0 + 600 * kMs, 1}, "a");
  builder_.EndSource("a", kT0 + 1500 * kMs);
  const auto windows = Close(3000);
  EXPECT_DOUBLE_EQ(windows[0].links[0].depth_mean, 0.5 * 2 + 0.1 * 5 + 0.4 * 4);
  EXPECT_DOUBLE_EQ(windows[0].links[0].depth_max, 5);
  EXPECT_DOUBLE_EQ(windows[1].links[0].depth_mean, 0.5 * 4 + 0.5 * 3);
  EXPECT_DOUBLE_EQ(windows[2].links[0].depth_mean, 3) << "b's messages lie there still";
}

TEST_F(Windows, WireSeenFromBothEnds_IsOneTransferFromTheFirstToTheLast) {
  for (const bool receiver_first : {false, true}) {
    WindowBuilder builder(model_);
    builder.StartAt(kT0);
    Activity sent = Transfer(Stage::kWire, gradients_, 100, 150, 0, 1);
    sent.raw_bytes = 100;
    sent.wire_bytes = 50;
    const Activity received = Transfer(Stage::kReceive, gradients_, 170, 200, 0, 1);
    builder.Add(At(Category::kWork, compute_, 0, 100));
    builder.Add(receiver_first ? received : sent);
    builder.Add(receiver_first ? sent : received);
    Activity wait = At(Category::kWaitLink, update_, 0, 200, gradients_);
    wait.source = 0;
    wait.sequence = 1;
    builder.Add(wait);
    const auto windows = builder.Close(kT0 + 1000 * kMs);
    const LinkWindowRow& link = windows[0].links[0];
    EXPECT_EQ(link.transfers, 1);
    EXPECT_EQ(link.raw_bytes, 100);
    EXPECT_EQ(link.wire_bytes, 50);
    EXPECT_EQ(link.stage_ns[static_cast<size_t>(Stage::kWire)], 100 * kMs);
    EXPECT_DOUBLE_EQ(link.traffic_share, 0.1);
    ASSERT_EQ(windows[0].worker_links.size(), 2u);
    EXPECT_EQ(windows[0].worker_links[1].wire_ns, 100 * kMs);
    EXPECT_EQ(windows[0].worker_links[1].upstream_busy_ns, 100 * kMs);
  }
}

TEST_F(Windows, DiscardedWork_IsBusyDiscarded) {
  Activity work = At(Category::kWork, compute_, 0, 300);
  work.step = 5;
  work.micro_batch = 2;
  work.version = 3;
  builder_.Add(work);
  work.begin_ns += 400 * kMs;
  work.end_ns += 400 * kMs;
  work.version = 4;  // done again with newer weights
  builder_.Add(work);
  Activity discard = At(Category::kDiscard, update_, 800, 800, gradients_);
  discard.on_thread = false;
  discard.source = 0;
  discard.step = 5;
  discard.micro_batch = 2;
  discard.version = 3;
  builder_.Add(discard);
  const auto windows = Close(1000);
  EXPECT_EQ(Of(windows[0].workers[0].state_ns, State::kBusyDiscarded), 300 * kMs);
  EXPECT_EQ(Of(windows[0].workers[0].state_ns, State::kBusy), 300 * kMs);
  EXPECT_DOUBLE_EQ(windows[0].pools[0].busy_ratio, 0.6);
  EXPECT_EQ(windows[0].links[0].discarded, 1);
}

TEST_F(Windows, EventLoss_IsUnknownWhateverElseIsSeen) {
  builder_.Add(At(Category::kWork, compute_, 0, 800));
  const int workers[] = {compute_};
  builder_.AddUnknown(workers, kT0 + 500 * kMs, kT0 + 600 * kMs);
  const auto windows = Close(1000);
  EXPECT_EQ(Of(windows[0].workers[0].state_ns, State::kUnknown), 100 * kMs);
  EXPECT_EQ(Of(windows[0].workers[0].state_ns, State::kBusy), 700 * kMs);
}

TEST_F(Windows, VersionLag_IsInUpdates) {
  Activity apply = Transfer(Stage::kApply, gradients_, 100, 110, 0, 1);
  apply.version = 6;
  apply.applied_version = 8;
  builder_.Add(apply);
  apply.sequence = 2;
  apply.version = 8;
  builder_.Add(apply);
  Activity step = At(Category::kStep, update_, 120, 120);
  step.version = 9;
  step.on_thread = false;
  builder_.Add(step);
  const auto windows = Close(1000);
  ASSERT_TRUE(windows[0].version.has_value());
  EXPECT_EQ(windows[0].version->version, 9);
  EXPECT_EQ(windows[0].version->applied, 2);
  EXPECT_EQ(windows[0].version->lag_sum, 2);
  EXPECT_EQ(windows[0].version->lag_max, 2);
}

TEST_F(Windows, WorkerThatComesAndGoes_IsNotIdleBeforeOrAfter) {
  builder_.Add(At(Category::kWork, update_, 0, 3000));
  builder_.Add(At(Category::kWork, compute_, 1200, 1800));
  builder_.Add(At(Category::kWork, compute_, 1800, 2250));
  builder_.EndWorker(compute_, kT0 + 2250 * kMs);
  builder_.EndWorker(compute_, kT0 + 2900 * kMs);  // the end of its process is no second life
  const auto windows = Close(3000);
  EXPECT_EQ(windows[0].workers.size(), 1u);
  const std::pair<int64_t, int64_t> there[] = {{1200, 800}, {2000, 250}};
  for (size_t i = 0; i < 2; ++i) {
    const WorkerWindowRow& row = windows[i + 1].workers[0];
    EXPECT_EQ(row.start_ns, kT0 + there[i].first * kMs);
    EXPECT_EQ(row.window_ns, there[i].second * kMs);
    EXPECT_EQ(Of(row.state_ns, State::kBusy), row.window_ns);
    EXPECT_DOUBLE_EQ(windows[i + 1].pools[0].busy_ratio, 1.0);
  }
}

TEST_F(Windows, DeadWorker_HasNoWindowsAfterItsEnd) {
  builder_.Add(At(Category::kWork, compute_, 0, 100));
  builder_.Add(At(Category::kWork, update_, 0, 100));
  builder_.EndWorker(compute_, kT0 + 1500 * kMs);
  const auto windows = Close(3000);
  EXPECT_EQ(windows[0].workers.size(), 2u);
  EXPECT_EQ(windows[1].workers.size(), 2u);
  EXPECT_EQ(windows[2].workers.size(), 1u);
}

TEST_F(Windows, FirstWindow_BeginsWithTheRun) {
  WindowBuilder builder{model_};  // nothing is closed yet
  builder.Add(At(Category::kWork, compute_, 700, 900));
  EXPECT_TRUE(builder.Close(kT0 + 900 * kMs).empty());
  builder.Add(At(Category::kWork, compute_, 600, 700));  // began before, ended later
  const auto windows = builder.Close(kT0 + 1000 * kMs);
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_EQ(windows[0].start_ns, kT0 + 600 * kMs);
  EXPECT_EQ(windows[0].window_ns, 400 * kMs) << "what was before it is no idle time";
  EXPECT_DOUBLE_EQ(windows[0].pools[0].busy_ratio, 0.75);
}

TEST_F(Windows, LastWindow_IsCutWhereTheRunEnds) {
  builder_.Add(At(Category::kWork, compute_, 0, 1250));
  const auto windows = Close(1250, true);
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[1].window_ns, 250 * kMs);
  EXPECT_DOUBLE_EQ(windows[1].pools[0].busy_ratio, 1.0);
}

TEST_F(Windows, AnyActivities_StatesAddUpAndWaitsAreMadeOfTheirParts) {
  EXPECT_TRUE(rc::check([this] {
    WindowBuilder builder(model_);
    builder.StartAt(kT0);
    const int count = *rc::gen::inRange(1, 60);
    int64_t now = 0;
    std::vector<WindowRows> all;
    for (int i = 0; i < count; ++i) {
      const int64_t begin = std::max<int64_t>(0, now - *rc::gen::inRange(0, 3000));
      Activity activity =
          At(static_cast<Category>(*rc::gen::inRange(1, 9)), *rc::gen::inRange(0, 2), begin,
             begin + *rc::gen::inRange(0, 2500), *rc::gen::inRange(0, 2));
      activity.stage = static_cast<Stage>(*rc::gen::inRange(0, 5));
      activity.source = 0;
      activity.sequence = static_cast<uint64_t>(*rc::gen::inRange(0, 5));
      activity.on_thread = *rc::gen::arbitrary<bool>();
      if (*rc::gen::arbitrary<bool>()) {
        builder.SetOpen("s", {activity});
      } else {
        builder.Add(activity);
      }
      now += *rc::gen::inRange(0, 700);
      for (auto& rows : builder.Close(kT0 + now * kMs)) all.push_back(std::move(rows));
    }
    for (auto& rows : builder.Close(kT0 + (now + 1500) * kMs, true)) all.push_back(std::move(rows));
    for (const WindowRows& rows : all) {
      for (const WorkerWindowRow& row : rows.workers) {
        RC_ASSERT(std::accumulate(row.state_ns.begin(), row.state_ns.end(), int64_t{0}) ==
                  row.window_ns);
        int64_t waited = 0;
        int64_t blocked = 0;
        for (const WorkerLinkWindowRow& link : rows.worker_links) {
          if (link.pool != row.pool || link.worker_index != row.worker_index) continue;
          RC_ASSERT(link.wait_ns == link.upstream_busy_ns + link.queued_ns + link.encode_ns +
                                        link.wire_ns + link.decode_ns + link.unattributed_ns);
          RC_ASSERT(link.unattributed_ns >= 0);
          RC_ASSERT(link.traffic_ns >= 0);
          RC_ASSERT(link.traffic_ns <= row.window_ns);
          waited += link.wait_ns;
          blocked += link.blocked_ns;
        }
        RC_ASSERT(waited == Of(row.state_ns, State::kWaitLink));
        RC_ASSERT(blocked == Of(row.state_ns, State::kBlockedLink));
      }
    }
  }));
}

}  // namespace
}  // namespace poolscope
