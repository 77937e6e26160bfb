#include "reference-trainer/admission.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace poolscope::trainer {
namespace {

using Start = Admission::Start;
using Verdict = Admission::Verdict;

// The books of a run whose steps are all alike, or as `pace` says.
struct AdmissionRun {
  AdmissionRun(uint64_t micro_batches, uint64_t lag_bound, Stale stale, uint64_t steps = 100,
               uint64_t shards = 1)
      : AdmissionRun(
            Pace::Rules{.steps = steps, .micro_batches = micro_batches, .lag_bound = lag_bound},
            {steps, stale, shards}) {}
  AdmissionRun(const Pace::Rules& pace_rules, const Admission::Rules& rules)
      : pace(pace_rules), admission(rules, pace) {}

  Pace pace;
  Admission admission;
};

TEST(Credits, AtTheStart_AreLagBoundPlusOneBatches) {
  AdmissionRun run(4, 2, Stale::kWait);
  Admission& admission = run.admission;
  EXPECT_EQ(admission.credits(), 12);
}

TEST(Credits, WhenGone_ComeBackWithTheUpdateNotWithTheArrival) {
  AdmissionRun run(2, 1, Stale::kApply);
  Admission& admission = run.admission;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(admission.TryStart(0, 0).start, Start::kStarted);
  EXPECT_EQ(admission.TryStart(0, 0).start, Start::kNoCredit);
  EXPECT_EQ(admission.Ask(0).verdict, Verdict::kAccepted);
  EXPECT_EQ(admission.Ask(1).verdict, Verdict::kAccepted);
  EXPECT_EQ(admission.TryStart(0, 0).start, Start::kNoCredit);
  admission.Updated();
  EXPECT_EQ(admission.credits(), 2);
  EXPECT_EQ(admission.TryStart(0, 0).start, Start::kStarted);
}

TEST(Admission, ByFirstArrivalAtAnyShard_IsTheSameForAllShards) {
  AdmissionRun run(2, 1, Stale::kApply, 100, 2);
  Admission& admission = run.admission;
  for (int i = 0; i < 4; ++i) admission.TryStart(0, 0);
  // Shard 0 sees 0 and 3, shard 1 sees 2, 3, 0: the order of first arrivals is 0, 2, 3.
  EXPECT_EQ(admission.Ask(0).step, 0u);
  EXPECT_EQ(admission.Ask(2).step, 0u);
  EXPECT_EQ(admission.Ask(3).step, 1u);
  EXPECT_EQ(admission.Ask(3).step, 1u);
  EXPECT_EQ(admission.Ask(0).step, 0u);
  EXPECT_EQ(admission.Ask(2).step, 0u);
}

TEST(Stale, UnderWait_NeedsNewerWeightsWhereTheBestCaseIsTooLate) {
  AdmissionRun run(2, 0, Stale::kWait);
  Admission& admission = run.admission;
  admission.TryStart(0, 0);
  admission.TryStart(0, 0);
  admission.Ask(0);
  admission.Ask(1);
  admission.Updated();
  EXPECT_EQ(admission.TryStart(0, 0).start, Start::kNeedsWeights);  // would be applied at version 1
  EXPECT_EQ(admission.TryStart(0, 1).start, Start::kStarted);
}

TEST(Stale, UnderWait_AnOvertakerIsDeferredWhereItWouldCostAnotherItsBound) {
  AdmissionRun run(1, 1, Stale::kWait);
  Admission& admission = run.admission;
  admission.TryStart(0, 0);                                 // 0: at version 1 at the latest
  admission.TryStart(0, 0);                                 // 1: at version 1 at the latest
  EXPECT_EQ(admission.Ask(1).verdict, Verdict::kAccepted);  // 0 can still go at version 1
  admission.Updated();
  EXPECT_EQ(admission.TryStart(0, 1).start, Start::kStarted);  // 2
  EXPECT_EQ(admission.Ask(2).verdict, Verdict::kDeferred);
  const auto late = admission.Ask(0);
  EXPECT_EQ(late.verdict, Verdict::kAccepted);
  EXPECT_EQ(late.lag, 1u);
  EXPECT_EQ(admission.Ask(2).step, 2u);
}

TEST(Stale, UnderDrop_IsDiscardedAndFreesItsCredit) {
  AdmissionRun run(1, 0, Stale::kDrop);
  Admission& admission = run.admission;
  admission.TryStart(0, 0);
  admission.Ask(0);
  admission.Updated();
  EXPECT_EQ(admission.TryStart(0, 0).start, Start::kStarted);  // does not wait for version 1
  EXPECT_EQ(admission.credits(), 0);
  const auto decision = admission.Ask(1);
  EXPECT_EQ(decision.verdict, Verdict::kDiscarded);
  EXPECT_EQ(decision.lag, 1u);
  EXPECT_EQ(admission.credits(), 1);
  EXPECT_EQ(admission.discarded(), 1u);
}

TEST(Stale, UnderDrop_TheNextAttemptTakesNewData) {
  AdmissionRun run(1, 0, Stale::kDrop);
  Admission& admission = run.admission;
  admission.TryStart(0, 0);
  admission.Ask(0);
  admission.Updated();
  EXPECT_EQ(admission.TryStart(0, 0).data, 1u);
  admission.Ask(1);
  EXPECT_EQ(admission.TryStart(0, 1).data, 2u);
}

TEST(Stale, UnderRecompute_TheSameDataIsDoneAgainWithNewerWeights) {
  AdmissionRun run(1, 0, Stale::kRecompute);
  Admission& admission = run.admission;
  admission.TryStart(0, 0);
  admission.Ask(0);
  admission.Updated();
  EXPECT_EQ(admission.TryStart(0, 0).data, 1u);
  EXPECT_EQ(admission.Ask(1).verdict, Verdict::kDiscarded);
  EXPECT_EQ(admission.TryStart(0, 0).start, Start::kNeedsWeights);
  const auto again = admission.TryStart(0, 1);
  EXPECT_EQ(again.start, Start::kStarted);
  EXPECT_EQ(again.data, 1u);
  EXPECT_EQ(again.number, 2u);
  EXPECT_EQ(admission.Ask(2).verdict, Verdict::kAccepted);
}

TEST(Stale, UnderApply_IsAcceptedWithItsLag) {
  AdmissionRun run(1, 0, Stale::kApply);
  Admission& admission = run.admission;
  admission.TryStart(0, 0);
  admission.Ask(0);
  admission.Updated();
  admission.TryStart(0, 0);
  const auto decision = admission.Ask(1);
  EXPECT_EQ(decision.verdict, Verdict::kAccepted);
  EXPECT_EQ(decision.lag, 1u);
}

TEST(Admission, AfterTheLastMicroBatch_StartsNothing) {
  AdmissionRun run(2, 3, Stale::kWait, 1);
  Admission& admission = run.admission;
  admission.TryStart(0, 0);
  admission.TryStart(0, 0);
  EXPECT_EQ(admission.TryStart(0, 0).start, Start::kNothingLeft);
}

TEST(Admission, Stopped_EndsAfterTheStepThatIsBeingFilled) {
  AdmissionRun run(2, 3, Stale::kApply);
  Admission& admission = run.admission;
  for (int i = 0; i < 6; ++i) admission.TryStart(0, 0);
  for (int i = 0; i < 3; ++i) admission.Ask(i);
  admission.StopAfterCurrentStep();
  EXPECT_EQ(admission.steps(), 2u);
  EXPECT_EQ(admission.TryStart(0, 0).start, Start::kNothingLeft);
  EXPECT_EQ(admission.Ask(3).verdict, Verdict::kAccepted);
  EXPECT_EQ(admission.Ask(4).verdict, Verdict::kDiscarded);
}

// Workers of random speed that overtake each other, weights that arrive late, two shards that see
// different orders: the bound holds, every step gets its micro-batches, and nothing gets stuck.
TEST(Admission, UnderWaitWithAnyOvertaking_NeverExceedsTheBound) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const uint64_t micro_batches = 1 + random() % 4, bound = random() % 3, steps = 12;
    AdmissionRun run(micro_batches, bound, Stale::kWait, steps);
    Admission& admission = run.admission;
    std::vector<uint64_t> in_flight, deferred;
    std::map<uint64_t, uint64_t> started_with;
    std::vector<uint64_t> accepted(steps, 0);
    uint64_t version = 0, held = 0;
    const auto note = [&](uint64_t number) {
      const auto decision = admission.Ask(number);
      if (decision.verdict == Verdict::kDeferred) return false;
      EXPECT_EQ(decision.verdict, Verdict::kAccepted);
      EXPECT_LE(decision.lag, bound);
      EXPECT_EQ(decision.lag, decision.step - std::min(decision.step, started_with[number]));
      ++accepted[decision.step];
      return true;
    };
    int moves = 0;
    while (version < steps && ++moves < 20000) {
      const uint32_t move = random() % 8;
      if (move < 4) {
        const auto attempt = admission.TryStart(0, held);
        if (attempt.start == Start::kStarted) {
          in_flight.push_back(attempt.number);
          started_with[attempt.number] = held;
        }
      } else if (move < 6 && !in_flight.empty()) {
        // Mostly the newest: older ones are overtaken again and again.
        const size_t at = random() % 4 == 0 ? random() % in_flight.size() : in_flight.size() - 1;
        deferred.push_back(in_flight[at]);
        in_flight.erase(in_flight.begin() + static_cast<std::ptrdiff_t>(at));
        while (std::erase_if(deferred, note) > 0) {
        }
      } else if (move == 6 && accepted[version] == micro_batches) {
        ++version;
        admission.Updated();
      } else if (move == 7 && held < version) {
        ++held;
      }
    }
    EXPECT_EQ(version, steps) << "stuck with seed " << seed;
    for (uint64_t step = 0; step < steps; ++step) EXPECT_EQ(accepted[step], micro_batches);
  }
}

}  // namespace
}  // namespace poolscope::trainer
