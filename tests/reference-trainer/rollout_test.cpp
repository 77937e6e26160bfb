// Rollout workers and a trainer in place of compute and update workers.
#include <gmock/gmock.h>

#include "reference-trainer/log.h"
#include "tests/reference-trainer/parse_options.h"
#include "tests/reference-trainer/training.h"

namespace poolscope::trainer {
namespace {

using testing::HasSubstr;

Options Rollouts() {
  Options options = Emulated(Mode::kAsync);
  options.rollout.on = true;
  options.rollout.slots = 4;
  options.rollout.tokens = 24;
  options.rollout.token_seconds = 2e-4;
  options.compute_workers = 2;
  options.micro_batches = 8;  // samples
  options.forward_seconds = options.backward_seconds = 1e-4;
  options.steps = 25;
  return options;
}

TEST(Rollout, SamplesKeepTheLagBound_AndAllAreLearntFrom) {
  for (const uint64_t bound : {0, 1, 3}) {
    Options options = Rollouts();
    options.rollout.tail = 1;
    options.lag_bound = bound;
    for (const StepRecord& record : TrainAll(options)) {
      EXPECT_LE(record.lag_max, bound);
      EXPECT_EQ(record.micro_batches, 8u);
      EXPECT_EQ(record.discarded, 0u);
    }
  }
}

TEST(Rollout, ALongTail_MakesTheTrainerWaitUnlessItMayLag) {
  Options options = Rollouts();
  options.steps = 16;
  options.rollout.token_seconds = 1e-3;
  options.lag_bound = 0;
  const double even = *Summarize(TrainAll(options)).step_seconds_median;
  options.rollout.tail = 1.2;
  const double tailed = *Summarize(TrainAll(options)).step_seconds_median;
  EXPECT_GT(tailed, 1.6 * even);  // the longest of 8 is some four times the median
  options.lag_bound = 3;
  EXPECT_LT(*Summarize(TrainAll(options)).step_seconds_median, 0.75 * tailed);
}

TEST(Rollout, UnderDropAndRecompute_DiscardsAndKeepsTheBound) {
  for (const Stale stale : {Stale::kDrop, Stale::kRecompute}) {
    Options options = Rollouts();
    options.rollout.tail = 1.5;
    options.stale = stale;
    options.lag_bound = 1;
    options.micro_batches = 4;
    const auto records = TrainAll(options);
    EXPECT_GT(records.back().discarded, 0u);
    for (const StepRecord& record : records) EXPECT_LE(record.lag_max, 1u);
  }
}

TEST(Rollout, WithATinyModel_TheTrainerLearns) {
  Options options = Rollouts();
  options.math = true;
  options.model = {1, 32, 2, 32, 2};
  options.model.learning_rate = 3e-3;
  options.rollout.tokens = 4;
  options.steps = 80;
  const auto records = TrainAll(options);
  EXPECT_LT(records.back().loss, 0.75 * records.front().loss);
}

TEST(Rollout, WhenTheRunFailsOrStops_KeepsNobodyWaiting) {
  Options options = Rollouts();
  options.rollout.tail = 1;
  ExpectStops(options);
  options.reliability.gradients.faults.loss = 1;
  options.reliability.limit = 1;
  EXPECT_THAT(Train(
                  options, nullptr, [](const StepRecord&) {}, [] { return false; }),
              HasSubstr("samples"));
}

TEST(Rollout, RefusesWhatItIsNot) {
  const std::string rl = "--layout rl --device emulated --async ";
  EXPECT_THAT(Error("--layout rl --device emulated"), HasSubstr("needs --async"));
  EXPECT_THAT(Error("--layout rl --async"), HasSubstr("needs --device emulated"));
  EXPECT_THAT(Error(rl + "--update-workers 2"), HasSubstr("one trainer"));
  EXPECT_THAT(Error(rl + "--gradients-codec bf16"), HasSubstr("--gradients-codec"));
  EXPECT_THAT(Error(rl + "--slow compute/0=2"), HasSubstr("no such worker"));
  EXPECT_THAT(Error("--rollout-tail 1"), HasSubstr("needs --layout rl"));
  EXPECT_TRUE(Good(rl + "--slow rollout/0=2 --pause-link samples:before=1").rollout.on);
  EXPECT_NEAR(Good(rl + "--rollout-token-ms 4 --time-scale 0.5").rollout.token_seconds, 2e-3, 1e-9);
}

}  // namespace
}  // namespace poolscope::trainer
