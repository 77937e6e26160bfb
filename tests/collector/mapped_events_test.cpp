// Jobs that know nothing of annotate.h, and what a mapping makes of their ranges and counters.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <map>

#include "advisor/report.h"
#include "advisor/what_if.h"
#include "collector/mapping_check.h"
#include "collector/mapping_suggest.h"
#include "collector/presets.h"
#include "tests/collector/drain_fixture.h"
#include "tests/support/child_process.h"
#include "trace/clock.h"

namespace poolscope {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

// A synchronous job of one compute and one update process. A step: two micro-batches of 10 ms, 5 ms
// of gradients on the wire, 4 ms of update, 3 ms of weights on the wire.
constexpr char kSyncMapping[] = R"(
[[worker]]
thread = "gpu"
pool = "compute"
[[worker]]
thread = "optimizer"
pool = "update"
[[link]]
name = "gradients"
from = "compute"
to = "update"
direct = true
[[link]]
name = "weights"
from = "update"
to = "compute"
direct = true
[[range]]
name = "micro-batch"
means = "work"
[[range]]
name = "adam"
means = "work"
[[range]]
name = "adam"
means = "step"
tokens = "tokens"
micro_batches = 2
[[range]]
name = "send gradients"
means = "wire"
link = "gradients"
bytes = 1000000
[[range]]
name = "send weights"
means = "wire"
link = "weights"
bytes = 2000000
[[range]]
name = "wait gradients"
means = "wait_link"
link = "gradients"
[[range]]
name = "wait weights"
means = "wait_link"
link = "weights"
[settings]
mode = "sync"
)";
constexpr int64_t kStepNs = 32 * kMs;

class MappedEventsTest : public Drain {
 protected:
  void Map(const std::string& toml) {
    options_.pools = files_.path() / "pools.toml";
    std::ofstream(options_.pools) << toml;
  }

  void SyncStep(FakeSession& gpu, FakeSession& optimizer, int64_t t) {
    const uint64_t tokens[] = {
        optimizer.Schema("step info", {{optimizer.Name("tokens"), 1, 0}}) | uint64_t{1} << 32, 512};
    for (const int64_t at : {t, t + 10 * kMs}) {
      gpu.Range(7, at, at + 10 * kMs, gpu.Name("micro-batch"));
    }
    gpu.End(7, t + 25 * kMs, gpu.Start(7, t + 20 * kMs, gpu.Name("send gradients")));
    gpu.Range(7, t + 20 * kMs, t + 32 * kMs, gpu.Name("wait weights"));
    optimizer.Range(8, t - 3 * kMs, t + 25 * kMs, optimizer.Name("wait gradients"));
    optimizer.Range(8, t + 25 * kMs, t + 29 * kMs, optimizer.Name("adam"), 0, 0, tokens);
    optimizer.End(8, t + 32 * kMs,
                  optimizer.Start(8, t + 29 * kMs, optimizer.Name("send weights")));
  }
  struct SyncJob {
    FakeSession gpu, optimizer;
  };
  std::unique_ptr<SyncJob> StartSyncJob() {
    auto one = Session(1), two = Session(2);
    one.ring_bytes = two.ring_bytes = 1 << 20;
    std::unique_ptr<SyncJob> job(new SyncJob{FakeSession(one), FakeSession(two)});
    job->gpu.ThreadName(7, "gpu");
    job->optimizer.ThreadName(8, "optimizer");
    return job;
  }
  void RunSyncJob(int steps) {
    auto job = StartSyncJob();
    const int64_t begin = 1000 * kMs;
    for (int step = 0; step < steps; ++step) {
      SyncStep(job->gpu, job->optimizer, begin + step * kStepNs);
    }
    auto collector = Open();
    DrainOnce(*collector);
    job->gpu.Exit();
    job->optimizer.Exit();
    DrainOnce(*collector);
  }
  // For events of which no window is closed while the test goes on.
  static int64_t SoonNs() { return MonotonicNs() + 5000 * kMs; }
  std::string Run() { return OpenStore()->FindRun("")->run_id; }
};

TEST_F(MappedEventsTest, EndOfARange_IsAStepWithTheFieldsThatTheRuleNames) {
  Map(kSyncMapping);
  RunSyncJob(5);
  const auto steps = OpenStore()->Steps(Run());
  ASSERT_EQ(steps->size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ((*steps)[i].step, static_cast<int64_t>(i));
    EXPECT_EQ((*steps)[i].version, static_cast<int64_t>(i) + 1);
    EXPECT_EQ((*steps)[i].tokens, 512) << "a payload field";
    EXPECT_EQ((*steps)[i].micro_batches, 2) << "a constant";
    EXPECT_FALSE((*steps)[i].loss.has_value());
  }
  EXPECT_EQ((*steps)[1].end_ns - (*steps)[0].end_ns, kStepNs);
}

TEST_F(MappedEventsTest, StepsThatEveryRankMarks_AreCountedOnce) {
  Map("[[range]]\nname = \"opt\"\nmeans = \"step\"\n");
  FakeSession one(Session(1)), two(Session(2));
  for (int i = 0; i < 4; ++i) {
    for (FakeSession* rank : {&one, &two}) {
      rank->Range(7, (100 + 10 * i) * kMs, (105 + 10 * i) * kMs, rank->Name("opt"));
    }
  }
  auto collector = Open();
  DrainOnce(*collector);
  EXPECT_EQ(OpenStore()->Steps(Run())->size(), 4u);
  // The one that counted ends: the other counts on.
  one.Exit();
  DrainOnce(*collector);
  two.Range(7, 200 * kMs, 205 * kMs, two.Name("opt"));
  DrainOnce(*collector);
  EXPECT_EQ(OpenStore()->Steps(Run())->back().step, 4);
}

TEST_F(MappedEventsTest, MappedMessages_ExplainTheWaitsThatTheyEnd) {
  Map(kSyncMapping);
  RunSyncJob(60);
  int64_t transfers = 0, bytes = 0;
  const auto store = OpenStore();
  const auto windows = store->LinkWindows(Run(), {});
  for (const LinkWindowRow& row : *windows) {
    if (row.link != "weights") continue;
    transfers += row.transfers;
    bytes += row.wire_bytes;
  }
  EXPECT_EQ(transfers, 60);
  EXPECT_EQ(bytes, 60 * 2'000'000);
  int64_t wait = 0, upstream = 0, wire = 0, unattributed = 0;
  const auto worker_windows = store->WorkerLinkWindows(Run(), {});
  for (const WorkerLinkWindowRow& row : *worker_windows) {
    if (row.link != "weights" || row.pool != "compute") continue;
    wait += row.wait_ns;
    upstream += row.upstream_busy_ns;
    wire += row.wire_ns;
    unattributed += row.unattributed_ns;
  }
  // Of 12 ms it waits, the weights are 3 ms on the wire; before that the update pool was at work.
  EXPECT_EQ(wait, 60 * 12 * kMs);
  EXPECT_NEAR(static_cast<double>(wire), 60 * 3 * kMs, 4 * kMs);
  EXPECT_NEAR(static_cast<double>(upstream), 60 * 9 * kMs, 10 * kMs);
  EXPECT_LT(unattributed, 13 * kMs);
}

TEST_F(MappedEventsTest, JobWithoutAnnotations_GetsAPredictionThatSaysWhatWasInferred) {
  Map(std::string(kSyncMapping) + "[[pool]]\nname = 'update'\nmemory_bytes = 5000000\n");
  RunSyncJob(80);
  const auto store = OpenStore();
  const auto report = BuildReport(*store, "");
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->replay_note, "");
  ASSERT_TRUE(report->replay_error.has_value());
  EXPECT_LT(*report->replay_error, 0.03);
  EXPECT_NEAR(*report->step_seconds, 0.032, 1e-4);
  std::vector<std::string> inferred;
  for (const auto& entry : report->unattributed.inferred) inferred.push_back(entry.what);
  for (const char* what : {"step", "version", "gradients.sequence", "gradients.queued",
                           "weights.waits", "weights.source"}) {
    EXPECT_THAT(inferred, Contains(what));
  }
  const WhatIfResult asked = AskWhatIf(*store, "", {{"gradients.codec", "bf16"}});
  ASSERT_TRUE(asked.answer.has_value()) << asked.error.message;
  ASSERT_TRUE(asked.answer->change.has_value()) << asked.answer->refused;
  // Half the gradients' 5 ms at best, none of it at worst: one size of message does not tell.
  EXPECT_LT(asked.answer->change->predicted_step_seconds, 0.0321);
  EXPECT_GT(asked.answer->change->predicted_step_seconds, 0.0290);
  EXPECT_THAT(asked.answer->change->assumed, Contains(HasSubstr("by when they ran")));
  EXPECT_THAT(ReportAsText(*report), HasSubstr("inferred: gradients.sequence: each stage's"));
  const WhatIfResult deep = AskWhatIf(*store, "", {{"gradients.depth", "4"}});
  ASSERT_TRUE(deep.answer.has_value()) << deep.error.message;  // 4 x 1 MB in, 2 MB out
  EXPECT_THAT(deep.answer->limits, Contains(HasSubstr("would need 0.006 GB, more than its 0.005")));
}

TEST_F(MappedEventsTest, RestartedCollector_TakesUpWhatTheMappingMadeOfTheEvents) {
  Map(kSyncMapping);
  const auto totals = [&] {
    std::map<std::string, int64_t> sums;
    const auto store = OpenStore();
    const auto windows = store->WorkerWindows(Run(), {});
    for (const WorkerWindowRow& row : *windows) {
      sums[row.pool + " busy"] += row.state_ns[static_cast<size_t>(State::kBusy)];
      sums[row.pool + " wait"] += row.state_ns[static_cast<size_t>(State::kWaitLink)];
    }
    return sums;
  };
  auto job = StartSyncJob();
  auto collector = Open();
  const int64_t begin = SoonNs();
  for (int step = 0; step < 20; ++step) {
    SyncStep(job->gpu, job->optimizer, begin + step * kStepNs);
    if (step % 5 != 4) continue;
    DrainOnce(*collector);
    collector.reset();
    collector = Open();
  }
  job->gpu.Exit();
  job->optimizer.Exit();
  DrainOnce(*collector);
  const auto sums = totals();
  EXPECT_EQ(sums.at("compute busy"), 20 * 20 * kMs);
  EXPECT_EQ(sums.at("update busy"), 20 * 4 * kMs);
  const auto store = OpenStore();
  EXPECT_EQ(store->Steps(Run())->size(), 20u);
  // Each message has a number of its own.
  std::set<uint64_t> sequences;
  const uint32_t schema = *store->FindString(kTransferSchema);
  (void)store->ReadEvents(Run(), {}, [&](const TrackRow&, const EventBatch& batch) {
    for (const Event& event : batch.events) {
      const auto payload = batch.Payload(event, schema);
      if (payload.size() < kTransferFields || event.name != *store->FindString("gradients"))
        continue;
      if (payload[kTransferStage] == static_cast<uint64_t>(Stage::kWire)) {
        sequences.insert(payload[kTransferSequence]);
      }
    }
    return true;
  });
  EXPECT_EQ(sequences.size(), 20u);
}

TEST_F(MappedEventsTest, DeviceThatChangesItsPoolAtAVersion_CountsForEachInItsTime) {
  Map("[[worker]]\nthread = \"gpu\"\nuntil_version = 3\npool = \"rollout\"\n"
      "[[worker]]\nthread = \"gpu\"\npool = \"trainer\"\n"
      "[[worker]]\nthread = \"driver\"\npool = \"other\"\n"
      "[[range]]\nname = \"work\"\nmeans = \"work\"\n"
      "[[range]]\nname = \"step\"\nmeans = \"step\"\n");
  FakeSession session(Session());
  session.ThreadName(7, "gpu");
  session.ThreadName(6, "driver");  // its slot is drained first
  auto collector = Open();
  const int64_t begin = SoonNs();
  for (int64_t step = 0; step < 6; ++step) {
    const int64_t t = begin + 100 * step * kMs;
    session.Range(6, t, t + 10 * kMs, session.Name("step"));  // makes version step + 1
    session.Range(7, t + 10 * kMs, t + 90 * kMs, session.Name("work"));
    if (step == 3) {
      DrainOnce(*collector);
      collector.reset();
      collector = Open();
    }
  }
  DrainOnce(*collector);
  session.Exit();
  DrainOnce(*collector);
  std::map<std::string, int64_t> busy, wall;
  const auto store = OpenStore();
  const auto windows = store->WorkerWindows(Run(), {});
  for (const WorkerWindowRow& row : *windows) {
    busy[row.pool] += row.state_ns[static_cast<size_t>(State::kBusy)];
    wall[row.pool] += row.window_ns;
  }
  // Version 3 is made at the end of the third step, before the work of it.
  EXPECT_EQ(busy["rollout"], 2 * 80 * kMs);
  EXPECT_EQ(busy["trainer"], 4 * 80 * kMs);
  EXPECT_LT(wall["rollout"], 250 * kMs) << "gone, not idle, once the device is the other pool's";
  const auto settings = store->Settings(Run());
  EXPECT_TRUE(std::any_of(settings->begin(), settings->end(),
                          [](const SettingRow& row) { return row.key == "mapping.changed_ns"; }));
}

TEST_F(MappedEventsTest, Counter_FillsALinksDepth) {
  Map("[[link]]\nname = \"samples\"\nfrom = \"a\"\nto = \"b\"\n"
      "[[counter]]\nname = \"queue size\"\nmeans = \"samples.depth\"\n"
      "[[worker]]\nthread = \"a\"\npool = \"a\"\n");
  FakeSession session(Session());
  const uint32_t domain = session.Domain("job");
  session.ThreadName(7, "a");
  const uint32_t counter = session.CounterName("queue size", domain, true);
  session.Sample(7, 1000 * kMs, counter, 4);
  session.Sample(7, 1900 * kMs, counter, 4);
  session.Mark(7, 2900 * kMs, session.Name("m"));
  auto collector = Open();
  DrainOnce(*collector);
  session.Exit();
  DrainOnce(*collector);
  double deepest = 0;
  const auto store = OpenStore();
  const auto windows = store->LinkWindows(Run(), {});
  for (const LinkWindowRow& row : *windows) deepest = std::max(deepest, row.depth_max);
  EXPECT_EQ(deepest, 4);
}

TEST_F(MappedEventsTest, Suggestion_IsAMappingOfWhichEveryRuleMatches) {
  Map("");
  auto job = StartSyncJob();
  for (const uint32_t tid : {20, 21}) {
    job->gpu.ThreadName(tid, "loader \"" + std::to_string(tid) + "\"");
    job->gpu.Range(tid, 1000 * kMs, 2000 * kMs, job->gpu.Name("load batch 17"));
  }
  job->gpu.Lane(0, {job->gpu.Name("device 0 stream 7"), LaneKind::kDeviceStream, 0, 1, 7});
  job->gpu.Activity(7, 0, 1000 * kMs, 1001 * kMs, job->gpu.Name("gemm"));
  for (int step = 0; step < 5; ++step) {
    SyncStep(job->gpu, job->optimizer, 1000 * kMs + step * kStepNs);
  }
  auto collector = Open();
  DrainOnce(*collector);
  const auto store = OpenStore();
  const auto seen = ReadSeen(*store, "");
  ASSERT_TRUE(seen.ok());
  const std::string toml = SuggestMapping(*seen);
  const auto mapping = Mapping::Parse(toml, "suggested.toml");
  ASSERT_TRUE(mapping.ok()) << mapping.error().message << "\n" << toml;
  EXPECT_EQ(mapping->workers().size(), 3u) << toml;
  EXPECT_EQ(CheckMapping(*mapping, *seen).matched_nothing, 0)
      << toml << CheckMapping(*mapping, *seen).text;
  EXPECT_EQ(mapping->MatchRange({"", "", "load batch 99", "", "", ""})->category_meant,
            Category::kInput);
  for (const char* seen_there : {"gpu", "optimizer", "device 0: stream 7", "adam", "send gradients",
                                 "# link = \"gradients\""}) {
    EXPECT_THAT(toml, HasSubstr(seen_there));
  }
}

// --- Presets: a job with the names that such jobs give. ---

class PresetTest : public MappedEventsTest {
 protected:
  double Seconds(const std::string& pool, State state) {
    double seconds = 0;
    const auto store = OpenStore();
    const auto windows = store->WorkerWindows(Run(), {});
    for (const WorkerWindowRow& row : *windows) {
      if (row.pool == pool)
        seconds += static_cast<double>(row.state_ns[static_cast<size_t>(state)]);
    }
    return seconds * 1e-9;
  }
  int64_t Transfers(const std::string& link) {
    int64_t transfers = 0;
    const auto store = OpenStore();
    const auto windows = store->LinkWindows(Run(), {});
    for (const LinkWindowRow& row : *windows) transfers += row.link == link ? row.transfers : 0;
    return transfers;
  }
  void Finish(std::initializer_list<FakeSession*> sessions) {
    auto collector = Open();
    DrainOnce(*collector);
    for (FakeSession* session : sessions) session->Exit();
    DrainOnce(*collector);
  }
};

TEST_F(PresetTest, ZeroOffload_DevicesComputeAndProcessorsUpdate) {
  options_.pools = "zero-offload";
  const ChildProcess rank({"RANK=0"});
  auto of = Session();
  of.pid = rank.pid();
  FakeSession session(of);
  session.Lane(0, {session.Name("device 0 stream 7"), LaneKind::kDeviceStream, 0, 1, 7});
  const auto group = [&](const char* schema, std::vector<const char*> names,
                         std::vector<uint64_t> values) {
    std::vector<SchemaFieldDef> fields;
    for (const char* name : names) fields.push_back({session.Name(name), 1, 0});
    values.insert(values.begin(), session.Schema(schema, fields) | uint64_t{values.size()} << 32);
    return values;
  };
  const uint32_t cuda = session.Domain("cuda");
  for (int64_t step = 0; step < 3; ++step) {
    const int64_t t = (1000 + 100 * step) * kMs;
    session.Activity(7, 0, t, t + 40 * kMs, session.Name("gemm"), kRecordMonotonic, cuda,
                     group("cuda.kernel", {"correlation", "launch_tid"}, {1, 7}));
    session.Activity(
        7, 0, t + 40 * kMs, t + 50 * kMs, session.Name("copy device to pinned"), kRecordMonotonic,
        cuda,
        group("cuda.copy", {"correlation", "launch_tid", "range", "range_open_id", "bytes"},
              {2, 7, 0, 0, 1000}));
    session.Range(7, t + 50 * kMs, t + 80 * kMs,
                  session.Name("DeepSpeedZeroOptimizer_Stage3.step"));
    session.Activity(
        7, 0, t + 80 * kMs, t + 90 * kMs, session.Name("copy pinned to device"), kRecordMonotonic,
        cuda,
        group("cuda.copy", {"correlation", "launch_tid", "range", "range_open_id", "bytes"},
              {3, 7, 0, 0, 1000}));
  }
  Finish({&session});
  EXPECT_NEAR(Seconds("compute", State::kBusy), 0.12, 1e-6);
  EXPECT_NEAR(Seconds("update", State::kBusy), 0.09, 1e-6);
  EXPECT_EQ(Transfers("gradients"), 3);
  EXPECT_EQ(Transfers("weights"), 3);
  EXPECT_EQ(OpenStore()->Steps(Run())->size(), 3u);
}

TEST_F(PresetTest, ParameterServer_RolesComeFromTheEnvironment) {
  options_.pools = "parameter-server";
  const ChildProcess worker({"DMLC_ROLE=worker"}), server({"DMLC_ROLE=server"});
  auto of = Session(1);
  of.pid = worker.pid();
  FakeSession one(of);
  of = Session(2);
  of.pid = server.pid();
  FakeSession two(of);
  for (int64_t step = 0; step < 3; ++step) {
    const int64_t t = (1000 + 100 * step) * kMs;
    one.Range(7, t, t + 20 * kMs, one.Name("forward"));
    one.Range(7, t + 20 * kMs, t + 50 * kMs, one.Name("backward"));
    one.Range(7, t + 50 * kMs, t + 60 * kMs, one.Name("push layer1"));
    two.Range(8, t + 60 * kMs, t + 70 * kMs, two.Name("update layer1"));
    one.Range(7, t + 60 * kMs, t + 100 * kMs, one.Name("pull layer1"));
  }
  Finish({&one, &two});
  EXPECT_NEAR(Seconds("compute", State::kBusy), 0.15, 1e-6);
  EXPECT_NEAR(Seconds("compute", State::kWaitLink), 0.12, 1e-6);
  EXPECT_NEAR(Seconds("update", State::kBusy), 0.03, 1e-6);
  EXPECT_EQ(Transfers("gradients"), 3);
  EXPECT_EQ(OpenStore()->Steps(Run())->size(), 3u);
}

TEST_F(PresetTest, AsyncRl_EnginesAndTrainersAreToldApartByTitles) {
  options_.pools = "async-rl";
  auto of = Session(1);
  of.command = "VLLM::EngineCore_DP0";
  FakeSession engine(of);
  of = Session(2);
  of.command = "ray::FullyAsyncTrainer.fit";
  FakeSession trainer(of);
  for (int64_t step = 0; step < 3; ++step) {
    const int64_t t = (1000 + 100 * step) * kMs;
    engine.Range(7, t, t + 80 * kMs, engine.Name("generate_sequences"));
    trainer.Range(8, t, t + 40 * kMs, trainer.Name("wait for samples"));
    trainer.Range(8, t + 40 * kMs, t + 50 * kMs, trainer.Name("compute_log_prob"));
    trainer.Range(8, t + 50 * kMs, t + 80 * kMs, trainer.Name("update_actor"));
    trainer.Range(8, t + 80 * kMs, t + 100 * kMs, trainer.Name("timing_s/param_sync"));
  }
  Finish({&engine, &trainer});
  EXPECT_NEAR(Seconds("rollout", State::kBusy), 0.24, 1e-6);
  EXPECT_NEAR(Seconds("trainer", State::kBusy), 0.12, 1e-6);
  EXPECT_NEAR(Seconds("trainer", State::kWaitLink), 0.12, 1e-6);
  EXPECT_EQ(Transfers("weights"), 3);
  EXPECT_EQ(OpenStore()->Steps(Run())->size(), 3u);
}

TEST_F(MappedEventsTest, Report_SaysWhatStayedUnattributed) {
  Map("[[worker]]\nthread = \"gpu\"\npool = \"compute\"\n"
      "[[range]]\nname = \"micro-batch\"\nmeans = \"work\"\n");
  RunSyncJob(5);
  const auto store = OpenStore();
  const auto report = BuildReport(*store, "");
  ASSERT_TRUE(report.ok());
  const Unattributed& found = report->unattributed;
  ASSERT_EQ(found.threads.size(), 1u);
  EXPECT_EQ(found.threads[0].name, "optimizer");
  // 32 ms a step on each of two threads.
  EXPECT_NEAR(found.threads_share, 0.5, 0.02);
  std::map<std::string, double> shares;
  for (const auto& range : found.ranges) shares[range.name] = range.share;
  EXPECT_EQ(shares.count("micro-batch"), 0u) << "the mapping gives it a meaning";
  EXPECT_NEAR(shares.at("wait weights"), 12.0 / 32, 0.02);
  EXPECT_THAT(ReportAsText(*report), HasSubstr("1 thread of no pool, 50."));
}

}  // namespace
}  // namespace poolscope
