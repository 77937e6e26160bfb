#include "advisor/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/advisor/schema_check.h"
#include "tests/support/scenario.h"
#include "tests/support/scratch_folder.h"

namespace poolscope {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const json& Schema() {
  static const json schema = [] {
    std::ifstream file(REPORT_SCHEMA);
    return json::parse(file);
  }();
  return schema;
}

// The report's JSON parses, has no NaN in it, and follows the schema.
json Checked(const Report& report) {
  const std::string text = ReportAsJson(report);
  json document = json::parse(text, nullptr, false);
  EXPECT_FALSE(document.is_discarded()) << text;
  EXPECT_EQ(testing::SchemaFault(document, Schema()), "");
  EXPECT_FALSE(report.verdict.empty());
  EXPECT_THAT(ReportAsText(report), ::testing::StartsWith(report.verdict));
  return document;
}

class ReportOf : public ::testing::Test {
 protected:
  Store Create() {
    Result<Store> store = Store::Open(scratch_ / "run.db", Store::Mode::kWrite);
    if (!store) std::abort();
    EXPECT_TRUE(store->Begin().ok());
    return std::move(*store);
  }
  Report Build(Store& store) {
    EXPECT_TRUE(store.Commit().ok());
    Result<Report> report = BuildReport(store, "");
    if (!report) std::abort();
    return *report;
  }
  testing::ScratchFolder scratch_;
  const std::string run_ = "0123456789abcdef0123456789abcdef";
};

TEST_F(ReportOf, RunWithNothingInIt_SaysSo) {
  Store store = Create();
  ASSERT_TRUE(store.Put(RunRow{run_, "h", "c", 5, 5, true}).ok());
  const Report report = Build(store);
  const json document = Checked(report);
  EXPECT_EQ(document["duration_seconds"], 0);
  EXPECT_TRUE(document["step_seconds"].is_null());
  EXPECT_THAT(report.verdict, HasSubstr("No pools"));
  EXPECT_FALSE(report.unseen.empty());
}

TEST_F(ReportOf, MonolithicRun_HasOnePoolAndNoAdvice) {
  Store store = Create();
  ASSERT_TRUE(store.Put(RunRow{run_, "h", "c", 1'000'000'000, 9'000'000'000, true}).ok());
  ASSERT_TRUE(store.Put(PoolRow{run_, "compute", "compute", 1}).ok());
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(
        store.Put(StepRow{run_, i, 1'500'000'000 + i * 900'000'000LL, i + 1, 512, 4, {}}).ok());
    WorkerWindowRow window{run_, "compute", 0, (i + 1) * 1'000'000'000LL, 1'000'000'000, {}};
    window.state_ns[static_cast<size_t>(State::kBusy)] = 900'000'000;
    window.state_ns[static_cast<size_t>(State::kIdle)] = 100'000'000;
    ASSERT_TRUE(store.Put(window).ok());
  }
  const Report report = Build(store);
  const json document = Checked(report);
  EXPECT_NEAR(document["pools"][0]["busy_ratio"], 0.9, 1e-12);
  EXPECT_NEAR(document["step_seconds"], 0.9, 1e-9);
  EXPECT_TRUE(report.findings.empty());
  EXPECT_TRUE(document["replay_error"].is_null());
  EXPECT_THAT(report.verdict, HasSubstr("One pool, busy 90.0 %")) << "balance is no word for it";
}

// One pool's worker is seen a moment longer than the last step, the other's a moment less.
TEST_F(ReportOf, RunOfOneWindow_TellsOfBothPools) {
  Store store = Create();
  ASSERT_TRUE(store.Put(RunRow{run_, "h", "c", 1'000'000'000, 1'900'000'000, true}).ok());
  for (int i = 0; i < 9; ++i) {
    ASSERT_TRUE(
        store.Put(StepRow{run_, i, 1'000'000'000 + i * 100'000'000LL, i + 1, 1, 1, {}}).ok());
  }
  for (const auto& [pool, window_ns] :
       {std::pair("compute", 800'000'001), {"update", 600'000'000}}) {
    ASSERT_TRUE(store.Put(PoolRow{run_, pool, pool, 1}).ok());
    WorkerWindowRow window{run_, pool, 0, 1'000'000'000, window_ns, {}};
    window.state_ns[static_cast<size_t>(State::kBusy)] = window_ns / 2;
    window.state_ns[static_cast<size_t>(State::kIdle)] = window_ns - window_ns / 2;
    ASSERT_TRUE(store.Put(window).ok());
  }
  const json document = Checked(Build(store));
  for (const json& pool : document["pools"]) EXPECT_NEAR(pool["busy_ratio"], 0.5, 1e-8);
}

TEST_F(ReportOf, StepsWithinOneWindow_AreNotSaidToBeWhatPoolsAreOf) {
  Store store = Create();
  ASSERT_TRUE(store.Put(RunRow{run_, "h", "c", 1'000'000'000, 2'000'000'000, true}).ok());
  for (int i = 0; i < 9; ++i) {
    ASSERT_TRUE(
        store.Put(StepRow{run_, i, 1'100'000'000 + i * 10'000'000LL, i + 1, 1, 1, {}}).ok());
  }
  ASSERT_TRUE(store.Put(PoolRow{run_, "trainer", "trainer", 1}).ok());
  WorkerWindowRow window{run_, "trainer", 0, 1'000'000'000, 1'000'000'000, {}};
  window.state_ns[static_cast<size_t>(State::kIdle)] = 1'000'000'000;
  ASSERT_TRUE(store.Put(window).ok());
  const Report report = Build(store);
  const json document = Checked(report);
  EXPECT_THAT(ReportAsText(report), HasSubstr("figures are of 0.10 s to 0.18 s after the start, of "
                                              "pools and links of 0.00 s to 1.00 s\n"));
  EXPECT_EQ(document["windows_begin_ns"], 1'000'000'000);
  EXPECT_EQ(document["windows_end_ns"], 2'000'000'000);
}

TEST_F(ReportOf, WhatTheJobSaidAndNobodyUnderstood_IsShown) {
  Store store = Create();
  ASSERT_TRUE(store.Put(RunRow{run_, "h", "c", 5, 1'000'000'000, true}).ok());
  ASSERT_TRUE(store.Put(SettingRow{run_, "unread.1", "worker my pool 0 compute"}).ok());
  EXPECT_THAT(ReportAsText(Build(store)),
              HasSubstr("'worker my pool 0 compute': a name of a pool"));
}

TEST_F(ReportOf, LossesOfARunWithoutSteps_AreNotWhatIsMissing) {
  Store store = Create();
  ASSERT_TRUE(store.Put(RunRow{run_, "h", "c", 5, 1'000'000'000, true}).ok());
  ASSERT_TRUE(store.Put(EventLossRow{run_, "s", "ring_full", "thread 1", 7, 5, 900'000'000}).ok());
  EXPECT_THAT(ReportAsText(Build(store)), HasSubstr("Nothing is predicted: no step was marked"));
}

TEST_F(ReportOf, RangesOfNoPool_AreNamedWithTheRemedy) {
  Store store = Create();
  ASSERT_TRUE(store.Put(RunRow{run_, "h", "c", 0, 9'000'000'000, true}).ok());
  ASSERT_TRUE(store.Put(ProcessRow{.session_id = "s", .run_id = run_}).ok());
  const auto thread = store.PutThread({0, "s", 7, "gen-0", "", -1});
  ASSERT_TRUE(thread.ok());
  const auto track = store.TrackId({0, run_, *thread, static_cast<uint32_t>(EventKind::kRange), 0});
  ASSERT_TRUE(track.ok());
  EventBatch batch;
  for (const auto& [name, duration] : {std::pair("log", 1), {"rollout", 500}, {"rollout", 500}}) {
    Event event;
    event.kind = EventKind::kRange;
    event.name = *store.Intern(name);
    event.start_ns = 1000 * static_cast<int64_t>(batch.events.size() + 1);
    event.duration_ns = duration;
    batch.events.push_back(event);
  }
  batch.events.push_back(batch.events.front());
  batch.events.back().name = *store.Intern("void a::gemm<b::half>(float*)");
  ASSERT_TRUE(store.Put(SymbolRow{batch.events.back().name, "_ZN1a4gemmIN1b4halfEEEvPf"}).ok());
  batch.events.back().start_ns = 9000;
  batch.events.back().duration_ns = 700;
  ASSERT_TRUE(store.Append(*track, batch).ok());
  const Report report = Build(store);
  Checked(report);
  EXPECT_THAT(report.unseen, ::testing::Contains(HasSubstr("--pools")));
  EXPECT_THAT(report.unseen,
              ::testing::Contains("4 ranges on 1 thread were recorded, most time in 'rollout', "
                                  "'gemm<half>', 'log'"));
}

// A mapped job: its waits name no message, so that nobody knows whether the link is to blame.
TEST_F(ReportOf, WaitsForUnknownMessages_AreNotBlamedOnTheLink) {
  Store store = Create();
  ASSERT_TRUE(store.Put(RunRow{run_, "h", "c", 0, 5'000'000'000, true}).ok());
  ASSERT_TRUE(store.Put(PoolRow{run_, "rollout", "rollout", 1}).ok());
  ASSERT_TRUE(store.Put(PoolRow{run_, "trainer", "trainer", 1}).ok());
  ASSERT_TRUE(store.Put(LinkRow{run_, "samples", "rollout", "trainer", 4, 1}).ok());
  ASSERT_TRUE(store.Put(LinkRow{run_, "lost", "trainer", "trainr", 4, 1}).ok());
  for (int i = 0; i < 5; ++i) {
    const int64_t start = i * 1'000'000'000LL;
    for (const char* pool : {"rollout", "trainer"}) {
      WorkerWindowRow window{run_, pool, 0, start, 1'000'000'000, {}};
      window.state_ns[static_cast<size_t>(State::kBusy)] = 400'000'000;
      window.state_ns[static_cast<size_t>(State::kWaitLink)] = 600'000'000;
      ASSERT_TRUE(store.Put(window).ok());
    }
    LinkWindowRow link{};
    link.run_id = run_;
    link.link = "samples";
    link.start_ns = start;
    link.window_ns = 1'000'000'000;
    ASSERT_TRUE(store.Put(link).ok());
    WorkerLinkWindowRow wait{run_, "trainer", 0, "samples", start, 1'000'000'000};
    wait.wait_ns = wait.unattributed_ns = 600'000'000;
    ASSERT_TRUE(store.Put(wait).ok());
    // Of a collective the sender waits too; that is not the receivers' time.
    wait.pool = "rollout";
    ASSERT_TRUE(store.Put(wait).ok());
  }
  const Report report = Build(store);
  Checked(report);
  EXPECT_TRUE(report.findings.empty()) << ReportAsText(report);
  EXPECT_THAT(report.unseen, ::testing::Contains(HasSubstr("trainer waited for samples 60.0 %")));
  EXPECT_THAT(report.unseen, ::testing::Contains(HasSubstr("no transfer on samples")));
  EXPECT_THAT(report.unseen, ::testing::Contains(HasSubstr("'trainr', which is no pool")));
  EXPECT_THAT(ReportAsText(report), HasSubstr("none seen"));
}

TEST_F(ReportOf, PoolsWithoutWindows_GiveZerosAndSayWhy) {
  Store store = Create();
  ASSERT_TRUE(store.Put(RunRow{run_, "h", "c", 0, 1'000, true}).ok());
  ASSERT_TRUE(store.Put(PoolRow{run_, "a", "compute", 2}).ok());
  ASSERT_TRUE(store.Put(PoolRow{run_, "b", "update", 0}).ok());
  ASSERT_TRUE(store.Put(LinkRow{run_, "x", "a", "b", 0, 0}).ok());
  const Report report = Build(store);
  const json document = Checked(report);
  EXPECT_TRUE(report.findings.empty());
  EXPECT_THAT(report.unseen, ::testing::Contains(HasSubstr("no window")));
  const json& link = document["links"][0];
  for (const char* mean : {"traffic_share", "exposed_share", "depth", "transfer_seconds"}) {
    EXPECT_TRUE(link[mean].is_null()) << mean << " of no transfer";
  }
  EXPECT_EQ(link["transfers"], 0);
  for (const auto& [stage, seconds] : link["stage_seconds"].items()) {
    EXPECT_TRUE(seconds.is_null()) << stage;
  }
}

TEST_F(ReportOf, LossesAndOpenRanges_AreListed) {
  Store store = Create();
  ASSERT_TRUE(store.Put(RunRow{run_, "h", "c", 0, 9'000'000'000, true}).ok());
  ASSERT_TRUE(
      store.Put(EventLossRow{run_, "s", "unknown_count", "session", std::nullopt, 1, 2}).ok());
  ASSERT_TRUE(store.Put(OpenRangeRow{run_, "s", 7, "all\nreduce", 1, 3, 4}).ok());
  const Report report = Build(store);
  const json document = Checked(report);
  EXPECT_TRUE(document["event_losses"][0]["events"].is_null());
  EXPECT_EQ(document["open_ranges"][0]["tid"], 7);
  EXPECT_THAT(ReportAsText(report), HasSubstr("all?reduce"));  // no control characters
}

TEST_F(ReportOf, OpenOperation_IsToldWithItsCommunicator) {
  Store store = Create();
  ASSERT_TRUE(store.Put(RunRow{run_, "h", "c", 1, 5, true}).ok());
  ASSERT_TRUE(store.Put(ProcessRow{"s", run_, "h", "c", 1, 0}).ok());
  const int64_t lane = kFirstLaneThread + 3;
  ASSERT_TRUE(store.PutThread(ThreadRow{0, "s", lane, "NCCL world 0abc rank 1", "", -1}).ok());
  ASSERT_TRUE(store.Put(OpenRangeRow{run_, "s", lane, "AllReduce", 0, 3, 4}).ok());
  const Report report = Build(store);
  EXPECT_THAT(ReportAsText(report), HasSubstr("AllReduce on NCCL world 0abc rank 1"));
  EXPECT_EQ(Checked(report)["open_ranges"][0]["tid"], lane);
}

TEST_F(ReportOf, Devices_AreToldByTheHardwaresSamplesWhereThereAreSome) {
  constexpr int64_t kSecond = 1'000'000'000;
  Store store = Create();
  ASSERT_TRUE(store.Put(RunRow{run_, "h", "c", 10 * kSecond, 14 * kSecond, true}).ok());
  for (int64_t second = 10; second < 14; ++second) {
    for (int64_t device = 0; device < 2; ++device) {
      DeviceWindowRow row{run_, second * kSecond, "host", device, kSaidByDriver, kSecond, "u", "H"};
      row.sm_ratio = 0.75;
      row.memory_used_bytes = second;
      row.memory_bytes = 99;
      ASSERT_TRUE(store.Put(row).ok());
      if (device == 0) continue;
      row.source = kSampledByHardware;
      row.sm_ratio = second == 10 ? 0.5 : 0.1;
      row.tensor_ratio = 0.25;
      row.memory_used_bytes = row.memory_bytes = std::nullopt;
      ASSERT_TRUE(store.Put(row).ok());
    }
  }
  const Report report = Build(store);
  const json devices = Checked(report)["devices"];
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0]["source"], "nvml");
  EXPECT_EQ(devices[0]["sm_ratio"], 0.75);
  EXPECT_TRUE(devices[0]["tensor_ratio"].is_null());
  EXPECT_EQ(devices[1]["source"], "pm_sampling");
  EXPECT_NEAR(devices[1]["sm_ratio"].get<double>(), (0.5 + 3 * 0.1) / 4, 1e-12);
  EXPECT_EQ(devices[1]["tensor_ratio"], 0.25);
  EXPECT_EQ(devices[1]["memory_used_bytes"], 13);  // at its most, as the driver says
  EXPECT_THAT(ReportAsText(report), HasSubstr("20.0 %"));
  EXPECT_THAT(ReportAsText(report), HasSubstr("pm_sampling"));
}

TEST_F(ReportOf, UnknownRun_IsAnError) {
  Store store = Create();
  ASSERT_TRUE(store.Commit().ok());
  EXPECT_FALSE(BuildReport(store, "abc").ok());
  EXPECT_FALSE(BuildReport(store, "").ok());
}

TEST(ReportJson, NotANumber_IsNull) {
  Report report;
  report.verdict = "v";
  report.step_seconds = std::nan("");
  report.pools.push_back({"p\xff", "other", 1, std::numeric_limits<double>::infinity(), {}});
  const std::string text = ReportAsJson(report);
  const json document = json::parse(text);
  EXPECT_TRUE(document["step_seconds"].is_null());
  EXPECT_TRUE(document["pools"][0]["busy_ratio"].is_null());
  EXPECT_EQ(testing::SchemaFault(document, Schema()), "");
}

TEST(ReportText, ReplayThatIsOff_IsNotPraised) {
  Report report;
  report.verdict = "v";
  report.replay_error = 0.2;
  report.replay_note = "the replay of held-out steps was 20 % off";
  EXPECT_THAT(ReportAsText(report), HasSubstr("Nothing is predicted: the replay"));
  EXPECT_THAT(ReportAsText(report), ::testing::Not(HasSubstr("not seen within")));
}

TEST_F(ReportOf, SlowLink_PrintsItsRecommendation) {
  testing::Scenario scenario;
  scenario.micro_batches = 8;
  scenario.update_ms = 20;
  scenario.gradients.bytes = 4e6;
  scenario.gradients.bandwidth = 3e8;
  ASSERT_EQ(testing::WriteStore(scenario, scratch_ / "slow.db"), "");
  Result<Store> store = Store::Open(scratch_ / "slow.db", Store::Mode::kRead);
  ASSERT_TRUE(store.ok());
  Result<Report> report = BuildReport(*store, "");
  ASSERT_TRUE(report.ok());
  const json document = Checked(*report);
  EXPECT_EQ(document["findings"][0]["recommendation"]["set"]["gradients.codec"], "bf16");
  EXPECT_THAT(ReportAsText(*report), HasSubstr("--gradients-codec bf16"));
  const Recommendation& change = *report->findings[0].recommendation;
  EXPECT_NEAR(change.predicted_tokens_per_second,
              change.predicted_speedup * *report->tokens_per_second, 1e-6);
  EXPECT_EQ(json::parse(FindingAsJson(report->findings[0])), document["findings"][0]);
  // By hand: transfers are counted at the receiver's side of the wire, each of 2 MB.
  EXPECT_NEAR(document["links"][0]["raw_bytes"].get<double>() /
                  document["links"][0]["transfers"].get<double>(),
              2e6, 1);

  Result<Report> live = BuildReport(*store, "", {.live = true});
  ASSERT_TRUE(live.ok());
  EXPECT_LE(live->analysed_end_ns - live->analysed_begin_ns, 5'200'000'000);
  ASSERT_FALSE(live->findings.empty());
  EXPECT_EQ(live->findings[0].rule, "exposed_traffic");

  Result<Report> plain = BuildReport(*store, "", {.what_if = false});
  ASSERT_TRUE(plain.ok());
  Checked(*plain);
  EXPECT_FALSE(plain->findings[0].recommendation);
}

}  // namespace
}  // namespace poolscope
