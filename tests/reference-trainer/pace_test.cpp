#include "reference-trainer/pace.h"

#include <gtest/gtest.h>

namespace poolscope::trainer {
namespace {

Pace::Rules Rules() {
  Pace::Rules rules;
  rules.steps = 100;
  rules.micro_batches = 8;
  rules.sequences = 4;
  rules.lag_bound = 2;
  return rules;
}

TEST(Pace, WithoutAnything_PlansAllStepsAlike) {
  Pace pace(Rules());
  for (const uint64_t step : {0, 7, 250}) {
    EXPECT_EQ(pace.Plan(step), (StepPlan{step, 8 * step, 8, 4, 2, 1.0, false}));
  }
}

TEST(Pace, InTheWarmUp_AllowsNoLagAndRaisesTheRateInEqualParts) {
  Pace::Rules rules = Rules();
  rules.warm_up_steps = 4;
  rules.warm_up_rate = 0.2;
  Pace pace(rules);
  const double rates[] = {0.2, 0.4, 0.6, 0.8, 1, 1};
  for (uint64_t step = 0; step < 6; ++step) {
    const StepPlan plan = pace.Plan(step);
    EXPECT_DOUBLE_EQ(plan.rate, rates[step]);
    EXPECT_EQ(plan.lag_bound, step < 4 ? 0u : 2u);
    EXPECT_EQ(plan.warm_up, step < 4);
  }
}

TEST(Pace, PlansThatNobodyAsksForAgain_AreForgottenAndTheOthersStay) {
  Pace pace(Rules());
  pace.Plan(50);
  pace.Forget(40);
  EXPECT_EQ(pace.Plan(40).first, 320u);
  EXPECT_EQ(pace.Plan(60).first, 480u);
}

// Norms of two tenths (100 steps: 10 each), then the plan of the next.
uint64_t AfterNorms(double before, double after, uint64_t micro_batches = 8) {
  Pace::Rules rules = Rules();
  rules.micro_batches = micro_batches;
  rules.adaptive_updates = true;
  rules.adaptive_min = 3;
  rules.adaptive_max = 20;
  Pace pace(rules);
  for (uint64_t step = 0; step < 19; ++step) {
    EXPECT_EQ(pace.Plan(step).micro_batches, micro_batches);
    pace.NoteNorm(step, step < 10 ? before : after);
  }
  EXPECT_EQ(pace.Plan(19).micro_batches, micro_batches) << "only each tenth of the steps";
  return pace.Plan(20).micro_batches;
}

TEST(Pace, Adaptive_TakesMoreMicroBatchesTheLessTheNormChanges) {
  EXPECT_EQ(AfterNorms(1, 1.1), 8u);
  EXPECT_EQ(AfterNorms(1, 1.15), 5u);  // 8 × 0.1 ÷ 0.15
  EXPECT_EQ(AfterNorms(1, 0.92), 10u);
}

TEST(Pace, Adaptive_AtMostHalvesOrDoublesAndKeepsItsBounds) {
  EXPECT_EQ(AfterNorms(1, 3), 4u);
  EXPECT_EQ(AfterNorms(1, 1), 16u);
  EXPECT_EQ(AfterNorms(1, 3, 4), 3u);
  EXPECT_EQ(AfterNorms(1, 1, 12), 20u);
}

TEST(Pace, Adaptive_KnowsNotTheNormOfTheStepJustBefore) {
  Pace::Rules rules = Rules();
  rules.adaptive_updates = true;
  rules.adaptive_max = 100;
  Pace some(rules), all(rules);
  for (uint64_t step = 0; step < 20; ++step) {
    all.NoteNorm(step, step == 19 ? 1e9 : 1);
    if (step < 19) some.NoteNorm(step, 1);
  }
  EXPECT_EQ(some.Plan(20), all.Plan(20));
}

TEST(Pace, DynamicBatch_IsAQuarterLessWhereBuffersAreEmptyAndAQuarterMoreWhereTheyAreFull) {
  Pace::Rules rules = Rules();
  rules.sequences = 8;
  rules.dynamic_batch = true;
  Pace pace(rules);
  EXPECT_EQ(pace.Plan(0).sequences, 8u);
  const std::pair<double, uint64_t> cases[] = {{0, 6}, {0.5, 8}, {1, 10}, {0.75, 9}};
  uint64_t step = 0;
  for (const auto& [fill, sequences] : cases) {
    pace.NoteFill(fill);
    EXPECT_EQ(pace.Plan(++step).sequences, sequences);
    EXPECT_EQ(pace.Plan(++step).sequences, sequences) << "stays until a buffer was looked at";
  }
}

}  // namespace
}  // namespace poolscope::trainer
