// Whole runs in this process: what they learn, and which rules they keep.
#include "tests/reference-trainer/training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

namespace poolscope::trainer {
namespace {

double FinalLoss(const std::vector<StepRecord>& records) {
  double sum = 0;
  for (size_t i = records.size() - 20; i < records.size(); ++i) sum += records[i].loss;
  return sum / 20;
}

const std::vector<StepRecord>& Monolithic() {
  static const std::vector<StepRecord> records = TrainAll(Small(Mode::kMonolithic));
  return records;
}

TEST(Training, Loss_FallsWellBelowTheUnigramEntropy) {
  EXPECT_NEAR(Monolithic().front().loss, std::log(256.0), 0.5);
  EXPECT_LT(FinalLoss(Monolithic()), 0.8 * Text().UnigramEntropy());
}

TEST(Training, SynchronousOnAnyWorkers_HasTheMonolithicLossAtEveryStep) {
  for (uint64_t compute = 1; compute <= 4; ++compute) {
    Options options = Small(Mode::kSync);
    options.compute_workers = compute;
    options.update_workers = 1 + compute % 2;
    const auto records = TrainAll(options);
    for (size_t i = 0; i < records.size(); ++i) {
      ASSERT_NEAR(records[i].loss, Monolithic()[i].loss, 1e-5 * Monolithic()[i].loss)
          << "step " << i << " with " << compute << " compute workers";
      EXPECT_EQ(records[i].lag_max, 0u);
    }
  }
}

TEST(Training, SynchronousWithMoreWorkersThanMicroBatches_HasTheMonolithicLoss) {
  Options options = Small(Mode::kSync);
  options.compute_workers = 6;
  options.steps = 20;
  const auto records = TrainAll(options);
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_NEAR(records[i].loss, Monolithic()[i].loss, 1e-5 * Monolithic()[i].loss);
  }
}

TEST(Training, AsynchronousWithLagBoundOne_EndsNearTheSynchronousLoss) {
  // The defaults, as a user runs them.
  const auto text = LoadCorpus("", 64);
  if (!std::holds_alternative<Corpus>(text)) GTEST_SKIP() << std::get<std::string>(text);
  Options options;
  options.mode = Mode::kMonolithic;
  const double synchronous = FinalLoss(TrainAll(options, std::get<Corpus>(text)));
  EXPECT_LT(synchronous, 0.8 * std::get<Corpus>(text).UnigramEntropy());
  options.mode = Mode::kAsync;
  options.compute_workers = 3;
  const auto records = TrainAll(options, std::get<Corpus>(text));
  EXPECT_LT(FinalLoss(records), 1.05 * synchronous);
  double lag = 0;
  for (const StepRecord& record : records) {
    EXPECT_LE(record.lag_max, 1u);
    lag += record.lag_mean / static_cast<double>(records.size());
  }
  EXPECT_GT(lag, 0.2);  // it was asynchronous
}

TEST(Training, InBf16_EndsNearTheSynchronousLoss) {
  Options options = Small(Mode::kSync);
  options.gradients.codec = options.weights.codec = Codec::kBf16;
  EXPECT_NEAR(FinalLoss(TrainAll(options)), FinalLoss(Monolithic()),
              0.05 * FinalLoss(Monolithic()));
}

TEST(Training, UnderWait_NeverExceedsTheLagBound) {
  for (const uint64_t bound : {0, 1, 3}) {
    Options options = Emulated(Mode::kAsync);
    options.lag_bound = bound;
    options.jitter = 0.8;  // so that micro-batches overtake each other
    options.update_workers = 2;
    options.weights.shape.latency_ns = 3'000'000;
    for (const StepRecord& record : TrainAll(options)) {
      EXPECT_LE(record.lag_max, bound);
      EXPECT_EQ(record.discarded, 0u);
    }
  }
}

TEST(Training, UnderDropAndRecompute_DiscardsAndKeepsTheBound) {
  for (const Stale stale : {Stale::kDrop, Stale::kRecompute}) {
    Options options = Emulated(Mode::kAsync);
    options.lag_bound = 0;
    options.stale = stale;
    options.weights.shape.latency_ns = 8'000'000;
    const auto records = TrainAll(options);
    for (const StepRecord& record : records) EXPECT_EQ(record.lag_max, 0u);
    EXPECT_GT(records.back().discarded, 0u);
  }
}

TEST(Training, UnderApply_LagsBeyondTheBoundAndDiscardsNothing) {
  Options options = Emulated(Mode::kAsync);
  options.lag_bound = 0;
  options.stale = Stale::kApply;
  options.weights.shape.latency_ns = 8'000'000;
  const auto records = TrainAll(options);
  uint64_t lag = 0;
  for (const StepRecord& record : records) lag = std::max(lag, record.lag_max);
  EXPECT_GT(lag, 0u);
  EXPECT_EQ(records.back().discarded, 0u);
}

TEST(Training, WithBuffersOfOne_DoesNotDeadlock) {
  for (const Stale stale : {Stale::kWait, Stale::kDrop, Stale::kRecompute, Stale::kApply}) {
    Options options = Emulated(Mode::kAsync);
    options.stale = stale;
    options.update_workers = 3;
    options.gradients.shape.depth = options.weights.shape.depth = 1;
    options.gradient_bytes = options.weight_bytes = 1'000'000;
    options.gradients.shape.bytes_per_second = 1e9;
    options.weights.shape.bytes_per_second = 1e9;
    options.jitter = 0.5;
    TrainAll(options);
  }
}

TEST(Training, Stopped_EndsAfterAWholeStep) {
  for (const Mode mode : {Mode::kMonolithic, Mode::kSync, Mode::kAsync}) {
    Options options = Emulated(mode);
    options.update_workers = 2;
    options.gradients.shape.depth = 1;
    ExpectStops(options);
  }
}

TEST(Training, OverASlowLink_TakesAtLeastItsTransfers) {
  Options options = Emulated(Mode::kAsync);
  options.steps = 10;
  options.gradient_bytes = 4'000'000;
  options.gradients.shape.bytes_per_second = 1e9;  // 4 micro-batches: 16 ms a step
  const auto records = TrainAll(options);
  EXPECT_GE(records.back().end_ns - records.front().end_ns, 9 * 15'000'000);
}

}  // namespace
}  // namespace poolscope::trainer
