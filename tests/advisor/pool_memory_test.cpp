// What a change would have the pools' devices hold bounds what is recommended. Figures by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "advisor/report.h"
#include "advisor/what_if.h"
#include "tests/support/scenario.h"
#include "tests/support/scratch_folder.h"

namespace poolscope {
namespace {

using ::testing::HasSubstr;

class PoolMemory : public ::testing::Test {
 protected:
  // Two workers that compute hold up six that update and could do with two.
  PoolMemory() {
    scenario_.compute = 2;
    scenario_.update = 6;
    scenario_.micro_batches = 24;
    scenario_.update_ms = 12;
  }
  void Write() {
    ASSERT_EQ(testing::WriteStore(scenario_, scratch_ / "run.db"), "");
    auto opened = Store::Open(scratch_ / "run.db", Store::Mode::kWrite);
    store_ = std::make_unique<Store>(std::move(*opened));
    run_ = *store_->FindRun("");
    threads_ = *store_->Threads(run_.run_id);
    ASSERT_TRUE(store_->Begin().ok());
  }
  // Every worker of the pool samples the counter once, as the run starts.
  void Sample(const std::string& pool, const std::string& counter, double value) {
    for (const ThreadRow& thread : threads_) {
      if (thread.pool != pool) continue;
      EventBatch batch;
      Event event;
      event.start_ns = run_.start_ns;
      event.kind = EventKind::kCounter;
      event.name = *store_->Intern(counter);
      event.value = value;
      batch.events.push_back(event);
      const auto track = store_->TrackId({0, run_.run_id, thread.thread_id,
                                          static_cast<uint32_t>(EventKind::kCounter), event.name});
      ASSERT_TRUE(store_->Append(*track, batch).ok());
    }
  }
  // Device `index` of NVML in the middle of the run.
  void Device(int64_t index, const std::string& uuid, double used, double memory) {
    DeviceWindowRow row;
    row.run_id = run_.run_id;
    row.start_ns = (run_.start_ns + run_.end_ns) / 2;
    row.window_ns = 1;
    row.host = "host";
    row.device = index;
    row.source = "nvml";
    row.uuid = uuid;
    row.memory_used_bytes = static_cast<int64_t>(used);
    row.memory_bytes = static_cast<int64_t>(memory);
    ASSERT_TRUE(store_->Put(row).ok());
  }
  // The finding on the pools' balance.
  Finding Advice() {
    EXPECT_TRUE(store_->Commit().ok());
    const auto report = BuildReport(*store_, "");
    for (const Finding& finding : report->findings) {
      if (finding.rule == "pool_imbalance") return finding;
    }
    ADD_FAILURE() << ReportAsText(*report);
    return {};
  }
  std::string Workers(const Finding& finding) {
    return finding.recommendation ? finding.recommendation->set.at("update.workers") : "";
  }
  static std::string EvidenceOf(const Finding& finding) {
    std::string text;
    for (const Evidence& evidence : finding.evidence) text += evidence.text + "\n";
    return text;
  }
  testing::Scenario scenario_;
  testing::ScratchFolder scratch_;
  std::unique_ptr<Store> store_;
  RunRow run_;
  std::vector<ThreadRow> threads_;
};

TEST_F(PoolMemory, NothingKnown_BoundsNothingAndSaysSo) {
  Write();
  const Finding finding = Advice();
  ASSERT_EQ(Workers(finding), "2");
  EXPECT_TRUE(finding.recommendation->memory.empty());
}

// 40 GB of state on each of six: 60 on each of four, 80 on each of three.
TEST_F(PoolMemory, StateThatFewerWorkersCouldNotHold_StopsThePoolFromShrinking) {
  scenario_.settings["update.memory_bytes"] = "80e9";
  Write();
  Sample("update", "update.device_memory_bytes", 45e9);
  Sample("update", "optimizer_state_bytes", 50e9);
  Sample("update", "optimizer_state_bytes.offloaded", 10e9);
  const Finding finding = Advice();
  EXPECT_EQ(Workers(finding), "4");
  EXPECT_THAT(EvidenceOf(finding),
              HasSubstr("left out, compute 2 -> 5, update 6 -> 3: a device of update would need 85 "
                        "GB, more than its 80 GB (memory_bytes of the mapping; it holds 45 GB now "
                        "(counter update.device_memory_bytes)"));
  ASSERT_EQ(finding.recommendation->memory.size(), 2u);
  const MemoryEstimate& update = finding.recommendation->memory[1];
  EXPECT_EQ(update.pool, "update");
  EXPECT_NEAR(update.needed_bytes, 65e9, 0.01e9) << "buffers of a few MB beside it";
  EXPECT_EQ(update.memory_bytes, 80e9);
  EXPECT_THAT(update.basis, HasSubstr("optimizer state 60 GB"));
}

// Nobody says what of the 40 GB is optimizer state: 48 on each of five.
TEST_F(PoolMemory, StateNotTold_IsAllThatTheDevicesHold) {
  scenario_.settings["update.memory_bytes"] = "45e9";
  Write();
  Sample("update", "update.device_memory_bytes", 40e9);
  const Finding finding = Advice();
  EXPECT_FALSE(finding.recommendation.has_value());
  EXPECT_THAT(finding.abstained, HasSubstr("compute 2 -> 3, update 6 -> 5: a device of update "
                                           "would need 48 GB, more than its 45 GB"));
  EXPECT_THAT(finding.abstained, HasSubstr("no optimizer_state_bytes is told"));
}

TEST_F(PoolMemory, PoolThatMovesInReplicas_HoldsNoMoreWithFewer) {
  scenario_.settings = {{"update.memory_bytes", "45e9"}, {"update.devices_per_replica", "2"}};
  Write();
  Sample("update", "update.device_memory_bytes", 40e9);
  EXPECT_EQ(Workers(Advice()), "2");
}

TEST_F(PoolMemory, DevicesOfTheOtherPool_MayBeTooSmall) {
  scenario_.settings = {{"compute.memory_bytes", "80e9"}, {"update.memory_bytes", "40e9"}};
  Write();
  Sample("compute", "compute.device_memory_bytes", 60e9);
  const Finding finding = Advice();
  EXPECT_FALSE(finding.recommendation.has_value());
  EXPECT_THAT(finding.abstained, HasSubstr("a device of compute would need 60 GB, more than its 40 "
                                           "GB (of update's: memory_bytes of the mapping"));
}

// The process calls NVML's device 3 its first.
TEST_F(PoolMemory, NvmlSaysIt_OfTheDevicesThatWorkersUse) {
  Write();
  for (int64_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(
        store_->Put(WorkerRow{run_.run_id, "update", i, threads_[0].session_id, "cuda:0"}).ok());
  }
  ASSERT_TRUE(
      store_->Put(ProcessFactRow{threads_[0].session_id, "env.CUDA_VISIBLE_DEVICES", "3,GPU-ab"})
          .ok());
  Device(0, "GPU-00", 1e9, 24e9);
  Device(3, "GPU-33", 40e9, 45e9);
  const Finding finding = Advice();
  EXPECT_FALSE(finding.recommendation.has_value());
  EXPECT_THAT(finding.abstained, HasSubstr("would need 48 GB, more than its 45 GB (NVML; it holds "
                                           "40 GB now (NVML)"));
}

TEST_F(PoolMemory, NvmlSaysIt_OfDevicesNamedByTheirUuid) {
  Write();
  for (int64_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(
        store_->Put(WorkerRow{run_.run_id, "update", i, threads_[0].session_id, "cuda:1"}).ok());
  }
  ASSERT_TRUE(
      store_->Put(ProcessFactRow{threads_[0].session_id, "env.CUDA_VISIBLE_DEVICES", "3,GPU-ab"})
          .ok());
  Device(3, "GPU-33", 1e9, 24e9);
  Device(5, "GPU-abcd", 40e9, 45e9);
  EXPECT_THAT(Advice().abstained, HasSubstr("would need 48 GB, more than its 45 GB"));
}

TEST_F(PoolMemory, WhatTheDriverSaidOfADevice_GoesBeforeItsEnvironment) {
  Write();
  const std::string& session = threads_[0].session_id;
  for (int64_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(store_->Put(WorkerRow{run_.run_id, "update", i, session, "cuda:0"}).ok());
  }
  ASSERT_TRUE(store_->Put(ProcessFactRow{session, "env.CUDA_VISIBLE_DEVICES", "3"}).ok());
  ASSERT_TRUE(store_->Put(ProcessFactRow{session, "device.0", "55"}).ok());
  Device(3, "GPU-33", 1e9, 24e9);
  Device(5, "GPU-55", 40e9, 45e9);
  EXPECT_THAT(Advice().abstained, HasSubstr("would need 48 GB, more than its 45 GB"));
}

TEST_F(PoolMemory, FiguresThatTheRunItselfContradicts_ForbidNothing) {
  scenario_.settings["update.memory_bytes"] = "30e9";
  Write();
  Sample("update", "update.device_memory_bytes", 40e9);
  const Finding finding = Advice();
  ASSERT_EQ(Workers(finding), "2");
  EXPECT_THAT(finding.recommendation->memory[1].memory_from,
              HasSubstr("not judged: by these figures it needs 40 GB of 30 GB as it is"));
}

// Buffers of 8 messages of 5 GB each, 40 GB of the 45 that are held; of 16, 80 GB.
TEST_F(PoolMemory, WhatIf_SaysWhatDoesNotFit) {
  scenario_.gradients.bytes = 30e9;
  scenario_.gradients.bandwidth = 1e15;
  scenario_.gradients.depth = 8;
  scenario_.settings = {{"update.memory_bytes", "60e9"}, {"compute.devices_per_replica", "2"}};
  Write();
  Sample("update", "update.device_memory_bytes", 45e9);
  ASSERT_TRUE(store_->Commit().ok());
  const auto ask = [&](const Changes& changes) { return AskWhatIf(*store_, "", changes); };
  const auto deeper = ask({{"gradients.depth", "16"}});
  ASSERT_TRUE(deeper.answer && deeper.answer->prediction);
  ASSERT_EQ(deeper.answer->limits.size(), 1u);
  EXPECT_THAT(deeper.answer->limits[0], HasSubstr("a device of update would need 85 GB"));
  const auto json = nlohmann::json::parse(WhatIfAsJson(*deeper.answer));
  EXPECT_EQ(json["prediction"]["limits"].size(), 1u);
  EXPECT_EQ(json["prediction"]["memory"][0]["memory_bytes"], 60e9);
  EXPECT_THAT(WhatIfAsText(*deeper.answer), HasSubstr("\nLIMIT     a device of update"));
  const auto shallower = ask({{"gradients.depth", "4"}});
  ASSERT_TRUE(shallower.answer);
  EXPECT_TRUE(shallower.answer->limits.empty());
  const auto odd = ask({{"compute.workers", "3"}});
  ASSERT_TRUE(odd.answer);
  EXPECT_THAT(odd.answer->limits,
              ::testing::ElementsAre(HasSubstr("3 workers of compute are no whole replicas of 2")));
}

}  // namespace
}  // namespace poolscope
