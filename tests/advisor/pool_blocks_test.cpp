// What a mapping says of pools bounds the ratios that are looked at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advisor/report.h"
#include "tests/support/scenario.h"
#include "tests/support/scratch_folder.h"

namespace poolscope {
namespace {

class PoolBlocks : public ::testing::Test {
 protected:
  // Eight workers that compute wait for two that update, each half as fast as it should be.
  PoolBlocks() {
    scenario_.compute = 8;
    scenario_.update = 2;
    scenario_.micro_batches = 16;
    scenario_.update_ms = 60;
  }
  // Of the finding on the pools' balance; none where it recommends nothing.
  std::optional<std::map<std::string, std::string>> Recommended() {
    const testing::ScratchFolder scratch;
    EXPECT_EQ(testing::WriteStore(scenario_, scratch / "run.db"), "");
    const auto store = Store::Open(scratch / "run.db", Store::Mode::kRead);
    const auto report = BuildReport(*store, "");
    for (const Finding& finding : report->findings) {
      if (finding.rule != "pool_imbalance") continue;
      if (finding.recommendation) return finding.recommendation->set;
      abstained_ = finding.abstained;
    }
    return std::nullopt;
  }
  testing::Scenario scenario_;
  std::string abstained_;
};

TEST_F(PoolBlocks, WorkersMoveInReplicas) {
  const auto free = Recommended();
  ASSERT_TRUE(free.has_value());
  scenario_.settings = {{"compute.devices_per_replica", "4"}, {"update.devices_per_replica", "2"}};
  const auto bound = Recommended();
  ASSERT_TRUE(bound.has_value());
  EXPECT_NE(*bound, *free) << "the bound must matter for this test";
  EXPECT_EQ(bound->at("compute.workers"), "4");
  EXPECT_EQ(bound->at("update.workers"), "6");
}

TEST_F(PoolBlocks, ReplicasDivideTheBatch) {
  scenario_.settings = {{"compute.batch", "16"}};
  const auto bound = Recommended();
  ASSERT_TRUE(bound.has_value());
  EXPECT_EQ(16 % std::stoi(bound->at("compute.workers")), 0);
}

TEST_F(PoolBlocks, PoolsOfDifferentDevices_ExchangeNone) {
  scenario_.settings = {{"compute.device_type", "h100"}, {"update.device_type", "cpu"}};
  EXPECT_FALSE(Recommended().has_value());
  EXPECT_THAT(abstained_, ::testing::HasSubstr("h100, those of update cpu: they exchange none"));
  scenario_.settings["update.device_type"] = "h100";
  EXPECT_TRUE(Recommended().has_value());
}

// What the job itself says of its devices counts where no mapping does.
TEST_F(PoolBlocks, DevicesAsTheJobTellsThem_AreOfTypes) {
  scenario_.settings = {{"compute.device", "cuda:0"}, {"update.device", "cpu"}};
  EXPECT_FALSE(Recommended().has_value());
  scenario_.settings["update.device"] = "cuda:1";
  EXPECT_TRUE(Recommended().has_value());
}

}  // namespace
}  // namespace poolscope
