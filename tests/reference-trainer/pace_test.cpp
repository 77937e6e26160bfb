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

}  // namespace
}  // namespace poolscope::trainer
