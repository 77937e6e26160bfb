#include "reference-trainer/step_shares.h"

#include <gtest/gtest.h>

namespace poolscope::trainer {
namespace {

using Start = Admission::Start;
using Verdict = Admission::Verdict;

struct SharesRun {
  SharesRun(uint64_t workers, uint64_t micro_batches, bool handovers = false, uint64_t steps = 100)
      : pace({.steps = steps, .micro_batches = micro_batches}),
        membership(workers, {}, {}),
        shares({steps, 1, handovers}, pace, membership) {}

  Pace pace;
  Membership membership;
  StepShares shares;
};

TEST(StepShares, OfAStep_AreDealtOutInTurn) {
  SharesRun run(3, 8);
  const uint64_t counts[] = {3, 3, 2};
  for (uint64_t worker = 0; worker < 3; ++worker) {
    const auto share = run.shares.TryStart(worker, 4);
    EXPECT_EQ(share.start, Start::kStarted);
    EXPECT_EQ(share.micro_batch, worker);
    EXPECT_EQ(share.stride, 3u);
    EXPECT_EQ(share.micro_batches, counts[worker]);
    EXPECT_EQ(share.data, 32 + worker);
    EXPECT_EQ(run.shares.TryStart(worker, 4).start, Start::kNeedsWeights) << "one each";
  }
}

TEST(StepShares, OfMoreWorkersThanMicroBatches_GoToTheFirst) {
  SharesRun run(5, 2);
  EXPECT_EQ(run.shares.TryStart(1, 0).start, Start::kStarted);
  EXPECT_EQ(run.shares.TryStart(2, 0).start, Start::kNeedsWeights);
}

TEST(StepShares, OfAWorkerThatHasGone_AreDoneByOthers) {
  SharesRun run(2, 4, true);
  const auto kept = run.shares.TryStart(0, 0), lost = run.shares.TryStart(1, 0);
  run.membership.Drop(1);
  EXPECT_EQ(run.shares.Void(1).size(), 2u);
  EXPECT_EQ(run.shares.Ask(lost.number).verdict, Verdict::kDiscarded);
  EXPECT_FALSE(run.shares.HandedOver(lost.number)) << "whoever was taken for dead and is not";
  EXPECT_EQ(run.shares.Ask(kept.number).verdict, Verdict::kDeferred);
  EXPECT_TRUE(run.shares.HandedOver(kept.number));
  EXPECT_EQ(run.shares.Ask(kept.number).verdict, Verdict::kAccepted);
  EXPECT_EQ(run.shares.TryStart(0, 0).micro_batch, 1u);
  EXPECT_EQ(run.shares.TryStart(0, 0).micro_batch, 3u);
  EXPECT_EQ(run.shares.TryStart(0, 0).start, Start::kNeedsWeights);
  EXPECT_EQ(run.shares.TryStart(0, 1).micro_batches, 4u) << "all of the next step";
}

TEST(StepShares, HandedOver_CountThoughTheirWorkerHasGone) {
  SharesRun run(2, 2, true);
  const auto share = run.shares.TryStart(1, 0);
  EXPECT_TRUE(run.shares.HandedOver(share.number));
  EXPECT_TRUE(run.shares.Void(1).empty());
  EXPECT_EQ(run.shares.Ask(share.number).verdict, Verdict::kAccepted);
}

TEST(StepShares, Stopped_EndAfterTheNewestStepBegun) {
  SharesRun run(2, 2);
  EXPECT_TRUE(run.shares.Begin(6));
  EXPECT_EQ(run.shares.TryStart(0, 7).start, Start::kStarted);
  run.shares.StopAfterCurrentStep();
  EXPECT_TRUE(run.shares.Begin(7));
  EXPECT_FALSE(run.shares.Begin(8));
  EXPECT_EQ(run.shares.TryStart(0, 8).start, Start::kNothingLeft);
}

TEST(StepShares, StoppedBeforeTheFirstStep_BeginNone) {
  SharesRun run(1, 1);
  run.shares.StopAfterCurrentStep();
  EXPECT_FALSE(run.shares.Begin(0));
}

}  // namespace
}  // namespace poolscope::trainer
