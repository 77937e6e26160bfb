#include "reference-trainer/step_gate.h"

#include <gtest/gtest.h>

#include "reference-trainer/version_clock.h"

namespace poolscope::trainer {
namespace {

TEST(StepGate, Stopped_LetsEveryWorkerFinishTheNewestStepBegun) {
  StepGate gate(100);
  EXPECT_TRUE(gate.Begin(0));
  EXPECT_TRUE(gate.Begin(1));  // one worker is ahead
  gate.StopAfterCurrentStep();
  EXPECT_TRUE(gate.Begin(1));  // the others follow
  EXPECT_FALSE(gate.Begin(2));
}

TEST(StepGate, Stopped_BeforeTheFirstStep_MakesNone) {
  StepGate gate(100);
  gate.StopAfterCurrentStep();
  EXPECT_FALSE(gate.Begin(0));
}

TEST(VersionClock, TheVersion_IsThatOfTheShardFurthestBehind) {
  VersionClock clock(2);
  EXPECT_FALSE(clock.Advance(0));
  EXPECT_EQ(clock.version(), 0u);
  EXPECT_TRUE(clock.Advance(1));
  EXPECT_EQ(clock.version(), 1u);
  EXPECT_FALSE(clock.Advance(1));
}

}  // namespace
}  // namespace poolscope::trainer
