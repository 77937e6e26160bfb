#include "advisor/prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

// A run whose steps alternate between two lengths: its median says little of its mean.
namespace poolscope {
namespace {

constexpr double kMs = 1e6;

Operation Constant(const std::string& name, OperationScope scope, double ns) {
  Operation operation;
  operation.name = name;
  operation.scope = scope;
  operation.samples.all = {ns};
  operation.samples.by_worker = {{ns}};  // what replicates draw anew
  return operation;
}

// Four workers make eight micro-batches of 30 ms: no step takes less than 60 ms. The link carries
// a gradient in 10.7 ms, and of those it delivers too late many are dropped.
Calibrated Discarding() {
  Calibrated calibrated;
  Model& model = calibrated.model;
  model.async = true;
  model.micro_batches = 8;
  model.lag_bound = 1;
  model.stale = StalePolicy::kDrop;
  model.compute = {"compute", 4, 4, {}, {}};
  model.compute.micro_batch = {Constant("micro-batch", OperationScope::kPerMicroBatch, 30 * kMs)};
  model.update = {"update", 1, 1, {}, {}};
  model.update.step = {Constant("optimizer", OperationScope::kPerShard, 20 * kMs)};
  model.gradients.name = "gradients";
  model.weights.name = "weights";
  for (LinkModel* link : {&model.gradients, &model.weights}) {
    link->raw_bytes = 32e6;
    link->depth = 8;
    link->bf16 = {"bf16", 0.5, 0, 0, false};
  }
  model.gradients.ns_per_byte = 1 / 3.0;
  model.weights.ns_per_byte = 1 / 20.0;
  return calibrated;
}

TEST(Prediction, AsynchronousSteps_AreScaledByTheirMeans) {
  const Calibrated calibrated = Discarding();
  const Simulated now = Simulate(calibrated.model, {.seed = 1, .steps = 80});
  ASSERT_LT(now.accepted, 1);
  // Steps of two lengths in turn, of which the median happens to be the shorter.
  const double mean = now.step_ns * 1e-9;
  const Predictor predictor(calibrated, {.median_seconds = 0.88 * mean, .mean_seconds = mean}, 3);
  const Result<Prediction> prediction = predictor.Predict({{"gradients.codec", "bf16"}});
  ASSERT_TRUE(prediction.ok());
  ASSERT_TRUE(prediction->possible);
  // By hand: compute limits, with nothing discarded.
  EXPECT_GT(prediction->step_seconds, 0.0595) << "less than the arithmetic alone takes";
  EXPECT_NEAR(prediction->step_seconds, 0.060, 0.002);
  EXPECT_DOUBLE_EQ(prediction->baseline_seconds, mean);
  // Step time and accepted work per second tell the same.
  EXPECT_NEAR(prediction->step_seconds * prediction->speedup, mean, 1e-9);
  EXPECT_LE(prediction->low, prediction->step_seconds);
  EXPECT_GE(prediction->high, prediction->step_seconds);
}

// By hand: ten micro-batches are made a step instead of eight, on four workers: 2 x 30 / 4 = 15 ms.
TEST(Prediction, Gain_IsSplitByWhatProducersNoLongerDo) {
  const Calibrated calibrated = Discarding();
  const Predictor predictor(calibrated, {.median_seconds = 0.1, .mean_seconds = 0.1}, 1);
  const Result<Prediction> prediction = predictor.Predict({{"gradients.codec", "bf16"}});
  ASSERT_TRUE(prediction.ok());
  EXPECT_THAT(GainFrom(*prediction), ::testing::HasSubstr("discarded work (15.0 ms)"));
}

TEST(Prediction, SynchronousSteps_AreScaledByTheirMedians) {
  Calibrated calibrated = Discarding();
  calibrated.model.async = false;
  const Predictor predictor(calibrated, {.median_seconds = 0.2, .mean_seconds = 0.3}, 3);
  const Result<Prediction> same = predictor.Predict({});
  ASSERT_TRUE(same.ok());
  EXPECT_NEAR(same->step_seconds, 0.2, 1e-9);
  // Where one side is asynchronous, means on both.
  const Result<Prediction> async = predictor.Predict({{"mode", "async"}});
  ASSERT_TRUE(async.ok());
  EXPECT_DOUBLE_EQ(async->baseline_seconds, 0.3);
}

}  // namespace
}  // namespace poolscope
