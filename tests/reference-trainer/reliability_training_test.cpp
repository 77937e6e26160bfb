// Whole runs over links that lose, damage, repeat, delay and reorder.
#include <gtest/gtest.h>

#include "reference-trainer/run.h"
#include "tests/reference-trainer/text.h"

namespace poolscope::trainer {
namespace {

Options Small(uint64_t steps = 40) {
  Options options;
  options.model = {1, 32, 2, 32, 2};
  options.steps = steps;
  options.update_workers = 2;
  return options;
}

Options Emulated(Mode mode) {
  Options options = Small(100);
  options.mode = mode;
  options.devices.compute.kind = options.devices.update.kind = DeviceKind::kEmulated;
  options.forward_seconds = options.backward_seconds = options.update_seconds = 0.001;
  options.compute_workers = 4;
  return options;
}

Codec Of(const std::string& name, CodecUse use) { return std::get<Codec>(ParseCodec(name, use)); }

// Both links, in blocks of 2 kB: some twenty a message.
void MakeBad(Options& options, const Faults& faults) {
  options.reliability.gradients.faults = options.reliability.weights.faults = faults;
  options.reliability.block_bytes = 2000;
  options.reliability.limit = 20;
}

constexpr Faults kOnePercent{0.01, 0.01, 0, 0, 0};
constexpr Faults kEverything{0.01, 0.01, 0.05, 0.05, 300'000};

struct Outcome {
  std::string failure;
  std::vector<double> losses;
  uint64_t lag_max = 0;
  RunTotals totals;
};

Outcome TrainAll(const Options& options) {
  Outcome outcome;
  outcome.failure = Train(
      options, options.math ? &Text() : nullptr,
      [&](const StepRecord& record) {
        outcome.losses.push_back(record.loss);
        outcome.lag_max = std::max(outcome.lag_max, record.lag_max);
      },
      [] { return false; }, &outcome.totals);
  return outcome;
}

// What was put wrong was found, and put right by sending again: nothing else was sent twice. What
// is still under way at the end of the run may be missing.
void ExpectRepaired(const FaultCounts& faults, uint64_t at_least) {
  constexpr uint64_t kUnderWay = 60;
  EXPECT_GT(faults.losses + faults.corruptions, at_least);
  EXPECT_LE(faults.corrupt, faults.corruptions);
  EXPECT_GE(faults.corrupt + kUnderWay, faults.corruptions);
  EXPECT_LE(faults.retries, faults.losses + faults.corruptions);
  EXPECT_GE(faults.retries + kUnderWay, faults.losses + faults.corruptions);
  EXPECT_NEAR(static_cast<double>(faults.retried_bytes),
              2000.0 * static_cast<double>(faults.retries),
              300.0 * static_cast<double>(faults.retries));
}

TEST(Reliability, SynchronousOnBadLinks_HasTheCleanLossAtEveryStep) {
  const Outcome clean = TrainAll(Small());
  for (const Faults& faults : {kOnePercent, kEverything}) {
    for (const size_t lanes : {1, 4}) {
      Options options = Small();
      options.gradients.shape.lanes = options.weights.shape.lanes = lanes;
      MakeBad(options, faults);
      const Outcome bad = TrainAll(options);
      EXPECT_EQ(bad.failure, "");
      EXPECT_EQ(bad.losses, clean.losses);  // bit by bit
      if (faults.duplicate > 0) {
        EXPECT_GT(bad.totals.weights.faults.duplicates, 100u);
      } else {
        ExpectRepaired(bad.totals.gradients.faults, 100);
      }
      EXPECT_GT(bad.totals.weights.faults.corrupt, 20u);
    }
  }
}

TEST(Reliability, StreamsOfCodecs_AreDecodedAsOnCleanLinks) {
  for (const auto& [gradients, weights] :
       {std::pair{"topk:0.1", "1bit-delta"}, {"1bit+zstd", "1bit-delta+lz4"}, {"lz4", "zstd"}}) {
    Options options = Small();
    options.gradients.codec = Of(gradients, CodecUse::kGradients);
    options.weights.codec = Of(weights, CodecUse::kWeights);
    const Outcome clean = TrainAll(options);
    options.gradients.shape.lanes = options.weights.shape.lanes = 4;
    MakeBad(options, kEverything);
    options.reliability.block_bytes = 200;
    const Outcome bad = TrainAll(options);
    EXPECT_EQ(bad.failure, "");
    EXPECT_EQ(bad.losses, clean.losses) << gradients << ", " << weights;
    EXPECT_GT(bad.totals.weights.faults.retries, 10u);
  }
}

TEST(Reliability, AsynchronousOnBadLinks_KeepsTheLagBoundAndLearns) {
  Options options = Emulated(Mode::kAsync);
  options.lag_bound = 2;
  MakeBad(options, {0.05, 0.01, 0.05, 0.05, 0});
  options.reliability.block_bytes = 20'000;  // of the stated bytes
  const Outcome outcome = TrainAll(options);
  EXPECT_EQ(outcome.failure, "");
  ASSERT_EQ(outcome.losses.size(), 100u);
  EXPECT_LE(outcome.lag_max, 2u);
  EXPECT_LT(outcome.losses.back(), 0.8 * outcome.losses.front());
  EXPECT_GT(outcome.totals.gradients.faults.retries, 100u);
}

TEST(Reliability, WhereNothingIsComputed_HeadersAreWhatIsDamaged) {
  Options options = Emulated(Mode::kSync);
  options.math = false;
  MakeBad(options, kOnePercent);
  options.reliability.block_bytes = 20'000;
  const Outcome outcome = TrainAll(options);
  EXPECT_EQ(outcome.failure, "");
  EXPECT_EQ(outcome.losses.size(), 100u);
  EXPECT_GT(outcome.totals.gradients.faults.corrupt, 50u);
  EXPECT_GT(outcome.totals.gradients.faults.retries, 100u);
}

TEST(Reliability, BestEffortWeights_AreAskedForAgain) {
  const Outcome clean = TrainAll(Small());
  Options options = Small();
  options.reliability.weights = {true, false, {0.2, 0.1, 0.2, 0.1, 300'000}};
  const Outcome sync = TrainAll(options);
  EXPECT_EQ(sync.failure, "");
  EXPECT_EQ(sync.losses, clean.losses);
  EXPECT_GT(sync.totals.weights.faults.lost, 20u);
  EXPECT_EQ(sync.totals.weights.faults.retries, 0u);
}

TEST(Reliability, BestEffortWeights_AreSupersededByTheNextVersion) {
  Options options = Emulated(Mode::kAsync);
  options.lag_bound = 4;
  options.reliability.weights = {true, false, {0.2, 0.1, 0.2, 0.1, 300'000}};
  options.weights.shape.lanes = 4;
  const Outcome outcome = TrainAll(options);
  EXPECT_EQ(outcome.failure, "");
  ASSERT_EQ(outcome.losses.size(), 100u);
  EXPECT_LE(outcome.lag_max, 4u);
  EXPECT_LT(outcome.losses.back(), 0.8 * outcome.losses.front());
  // 100 versions of 2 shards for 4 workers, of which 0.28 are lost: asked for again are few.
  const Link::Traffic& weights = outcome.totals.weights;
  EXPECT_GT(weights.faults.lost, 100u);
  EXPECT_LT(weights.raw_bytes, 5 * 100 * options.weight_bytes);
}

TEST(Reliability, LostRequestsAndAnswersOfParameterFetch_AreAskedForAgain) {
  Options options = Small();
  const Outcome clean = TrainAll(options);
  options.fetch.on = true;
  options.fetch.timeout_ns = 4'000'000;
  options.reliability.requests = {true, false, {0.05, 0.02, 0, 0, 0}};
  options.reliability.weights = {true, false, {0.05, 0, 0, 0, 0}};
  const Outcome outcome = TrainAll(options);
  EXPECT_EQ(outcome.failure, "");
  EXPECT_EQ(outcome.losses, clean.losses);
  const uint64_t lost = outcome.totals.requests.faults.lost + outcome.totals.weights.faults.lost;
  EXPECT_GT(outcome.totals.requests.faults.lost, 10u);
  EXPECT_GT(outcome.totals.weights.faults.lost, 10u);
  EXPECT_EQ(outcome.totals.requests.faults.retries, 0u);  // nobody but who waits repeats
  EXPECT_GE(outcome.totals.fetch.value().asked_again, lost * 9 / 10);
}

TEST(Reliability, WhatCannotGetThrough_EndsTheRunInOneLine) {
  Options options = Small();
  options.reliability.timeout_ns = 1'000'000;
  options.reliability.limit = 4;
  options.reliability.gradients.faults.loss = 1;
  const std::string lost = TrainAll(options).failure;
  EXPECT_NE(lost.find("link gradients: message "), std::string::npos) << lost;
  EXPECT_NE(lost.find(" did not get through in 4 tries (--retransmit-limit)"), std::string::npos);
  options.reliability.gradients = {};
  options.reliability.weights = {true, false, {1, 0, 0, 0, 0}};
  for (const Mode mode : {Mode::kSync, Mode::kAsync}) {
    options.mode = mode;
    const std::string failure = TrainAll(options).failure;
    EXPECT_NE(failure.find("link weights: version 1 from worker"), std::string::npos) << failure;
  }
}

TEST(Reliability, WithoutFaults_SendsNothingAgain) {
  Options options = Small();
  options.reliability.gradients.reliability_given = true;
  const Outcome outcome = TrainAll(options);
  EXPECT_EQ(outcome.losses, TrainAll(Small()).losses);
  EXPECT_EQ(outcome.totals.gradients.faults.retries, 0u);
}

}  // namespace
}  // namespace poolscope::trainer
