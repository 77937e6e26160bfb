#include "advisor/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/scenario.h"
#include "tests/support/scratch_folder.h"

namespace poolscope {
namespace {

using ::testing::HasSubstr;

testing::Scenario Usual() {
  testing::Scenario scenario;
  scenario.compute = 6;
  scenario.update = 2;
  scenario.micro_batches = 12;
  scenario.jitter = 0.05;
  scenario.gradients.bytes = 4e6;
  scenario.gradients.bandwidth = 1e9;
  scenario.weights.latency_ms = 1;
  return scenario;
}

class WhatIfOf : public ::testing::Test {
 protected:
  WhatIfResult Ask(const Changes& changes) {
    const std::string path = scratch_ / "run.db";
    if (!written_) {
      EXPECT_EQ(testing::WriteStore(Usual(), path), "");
    }
    written_ = true;
    Result<Store> store = Store::Open(path, Store::Mode::kRead);
    if (!store) std::abort();
    return AskWhatIf(*store, "", changes);
  }
  // The change predicted, against the timeline of the changed scenario.
  void ExpectTrue(const Changes& changes, const testing::Scenario& changed) {
    const WhatIfResult result = Ask(changes);
    ASSERT_TRUE(result.answer && result.answer->prediction);
    const double measured = testing::StepSeconds(testing::Play(changed));
    EXPECT_NEAR(result.answer->prediction->step_seconds, measured, 0.03 * measured);
  }
  testing::ScratchFolder scratch_;
  bool written_ = false;
};

TEST_F(WhatIfOf, UnknownKnob_IsUsageAndNamesTheKnownOnes) {
  const WhatIfResult result = Ask({{"compute.wrkers", "3"}});
  ASSERT_FALSE(result.answer);
  EXPECT_TRUE(result.error.usage);
  EXPECT_THAT(result.error.message, HasSubstr("compute.workers, update.workers"));
}

TEST_F(WhatIfOf, BadValues_AreUsage) {
  for (const auto& [knob, value] : {std::pair("compute.workers", "0"),
                                    {"compute.workers", "2x"},
                                    {"gradients.depth", ""},
                                    {"gradients.codec", "zip"},
                                    {"mode", "monolithic"},
                                    {"lag_bound", "-1"}}) {
    const WhatIfResult result = Ask({{knob, value}});
    ASSERT_FALSE(result.answer) << knob << "=" << value;
    EXPECT_TRUE(result.error.usage);
  }
}

TEST_F(WhatIfOf, UnknownKnob_IsAnsweredWithAllKnobs) {
  const WhatIfResult result = Ask({{"modus", "async"}});
  ASSERT_FALSE(result.answer);
  for (const char* knob : {"compute.workers", "weights.depth", "lag_bound", "mode"}) {
    EXPECT_NE(result.error.message.find(knob), std::string::npos) << result.error.message;
  }
}

TEST_F(WhatIfOf, NoChange_PredictsWhatWasMeasured) {
  const WhatIfResult result = Ask({});
  ASSERT_TRUE(result.answer && result.answer->prediction);
  EXPECT_NEAR(result.answer->prediction->speedup, 1, 1e-9);
  EXPECT_LT(*result.answer->replay.step_error, 0.03);
}

TEST_F(WhatIfOf, MoreComputeWorkers_ComeTrue) {
  testing::Scenario changed = Usual();
  changed.compute = 12;
  ExpectTrue({{"compute.workers", "12"}}, changed);
}

TEST_F(WhatIfOf, MoreShards_ComeTrue) {
  testing::Scenario changed = Usual();
  changed.update = 4;
  ExpectTrue({{"update.workers", "4"}}, changed);
}

TEST_F(WhatIfOf, ShallowBuffersOnALinkWithLatency_ComeTrue) {
  testing::Scenario changed = Usual();
  changed.weights.depth = 1;
  ExpectTrue({{"weights.depth", "1"}}, changed);
}

TEST_F(WhatIfOf, LargerBatch_ComesTrue) {
  testing::Scenario changed = Usual();
  changed.micro_batches = 24;
  ExpectTrue({{"micro_batches", "24"}}, changed);
}

TEST_F(WhatIfOf, Json_HasReplayAndPrediction) {
  const WhatIfResult result = Ask({{"gradients.codec", "bf16"}, {"compute.workers", "4"}});
  ASSERT_TRUE(result.answer);
  const auto json = nlohmann::json::parse(WhatIfAsJson(*result.answer));
  EXPECT_EQ(json["schema"], "poolscope.what_if/1");
  EXPECT_EQ(json["replay"][0]["what"], "step seconds");
  EXPECT_EQ(json["prediction"]["apply"], "--compute-workers 4 --gradients-codec bf16");
  EXPECT_EQ(json["prediction"]["class"], "reduced precision");
  EXPECT_THAT(WhatIfAsText(*result.answer), HasSubstr("compute 6 -> 4"));
}

TEST_F(WhatIfOf, SameQuestion_SameAnswer) {
  const Changes changes{{"compute.workers", "4"}};
  EXPECT_EQ(WhatIfAsJson(*Ask(changes).answer), WhatIfAsJson(*Ask(changes).answer));
}

// Why nothing is predicted.
std::string Refused(const testing::Scenario& scenario) {
  const testing::ScratchFolder scratch;
  EXPECT_EQ(testing::WriteStore(scenario, scratch / "run.db"), "");
  Result<Store> store = Store::Open(scratch / "run.db", Store::Mode::kRead);
  if (!store) return store.error().message;
  const WhatIfResult result = AskWhatIf(*store, "", {{"compute.workers", "4"}});
  return result.answer && !result.answer->prediction ? result.answer->refused : "";
}

TEST(WhatIf, RunWithoutStages_PredictsNothingAndSaysWhy) {
  testing::Scenario scenario = Usual();
  scenario.staged = false;
  EXPECT_THAT(Refused(scenario), HasSubstr("queued"));
}

TEST(WhatIf, TransfersThatDoNotSayTheirStep_AreNotSaidToBeUnseen) {
  testing::Scenario scenario = Usual();
  scenario.told_steps = false;
  EXPECT_EQ(Refused(scenario), "the transfers on link gradients do not say their step");
}

}  // namespace
}  // namespace poolscope
