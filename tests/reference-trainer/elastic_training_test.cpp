// Whole runs whose compute workers come, leave and die.
#include <gtest/gtest.h>

#include <string>

#include "tests/reference-trainer/training.h"

namespace poolscope::trainer {
namespace {

constexpr uint64_t kElasticSteps = 40;

Options Elastic(Mode mode, uint64_t workers) {
  Options options = Small(mode);
  options.steps = kElasticSteps;
  options.compute_workers = workers;
  options.update_workers = 2;
  options.schedule.lease_seconds = 0.3;
  return options;
}

void ExpectTheMonolithicCurve(const std::vector<StepRecord>& records) {
  static const std::vector<StepRecord> monolithic = TrainAll(Elastic(Mode::kMonolithic, 1));
  ASSERT_EQ(records.size(), monolithic.size());
  for (size_t i = 0; i < records.size(); ++i) {
    ASSERT_NEAR(records[i].loss, monolithic[i].loss, 1e-5 * monolithic[i].loss) << "step " << i;
    EXPECT_EQ(records[i].tokens, monolithic[i].tokens);
  }
}

std::vector<uint64_t> Workers(const std::vector<StepRecord>& records) {
  std::vector<uint64_t> workers;
  for (const StepRecord& record : records) workers.push_back(record.compute_workers);
  return workers;
}

TEST(Elastic, SynchronousWhoeverComesAndLeaves_HasTheMonolithicCurve) {
  for (const uint64_t workers : {1, 3}) {
    Options options = Elastic(Mode::kSync, workers);
    options.schedule.joins = {{2, 3}, {1, 20}};
    options.schedule.leaves = {{0, 8, 0}, {workers, 12, 0.5}, {workers + 1, 30, 0}};
    const auto records = TrainAll(options);
    ExpectTheMonolithicCurve(records);
    const auto present = Workers(records);
    const std::pair<uint64_t, uint64_t> expected[] = {{2, workers},      {3, workers + 2},
                                                      {8, workers + 1},  {13, workers},
                                                      {20, workers + 1}, {30, workers}};
    for (const auto& [step, count] : expected) EXPECT_EQ(present[step], count) << "step " << step;
  }
}

// At the beginning, among the micro-batches, before the sum is sent, and when one of two shards has
// it.
TEST(Elastic, SynchronousWithAWorkerThatDies_HasTheMonolithicCurve) {
  for (const double progress : {0.0, 0.3, 0.6, 0.8}) {
    Options options = Elastic(Mode::kSync, 2);
    options.schedule.kills = {{1, 5, progress}};
    const auto records = TrainAll(options);
    ExpectTheMonolithicCurve(records);
    EXPECT_EQ(Workers(records)[5], 2u);
    EXPECT_EQ(Workers(records)[6], 1u);
  }
}

TEST(Elastic, SynchronousOfTwelveWithDeathsOfSome_HasTheMonolithicCurve) {
  Options options = Elastic(Mode::kSync, 12);
  options.schedule.kills = {{0, 2, 0.5}, {3, 2, 0}, {1, 7, 0.7}, {11, 9, 0}};
  options.schedule.joins = {{1, 10}};
  const auto records = TrainAll(options);
  ExpectTheMonolithicCurve(records);
  EXPECT_EQ(Workers(records).back(), 9u);
}

TEST(Elastic, AsynchronousWithJoinsLeavesAndDeaths_KeepsItsBoundAndTakesInEveryMicroBatch) {
  for (const Stale stale : {Stale::kWait, Stale::kDrop, Stale::kRecompute, Stale::kApply}) {
    for (const uint64_t workers : {1, 4}) {
      Options options = Elastic(Mode::kAsync, workers);
      options.stale = stale;
      options.schedule.joins = {{2, 4}};
      options.schedule.leaves = {{0, 10, 0.6}};
      options.schedule.kills = {{workers, 15, 0.8}};
      for (const StepRecord& record : TrainAll(options)) {
        EXPECT_EQ(record.micro_batches, options.micro_batches);
        if (stale != Stale::kApply) {
          EXPECT_LE(record.lag_max, options.lag_bound);
        }
      }
    }
  }
}

// The lease is far shorter than a micro-batch of a worker whose process says nothing in time: the
// worker goes on, and what it sends must not count beside what others do again.
TEST(Elastic, WorkersTakenForDeadThatAreNot_CountNothingTwice) {
  Options options = Elastic(Mode::kSync, 3);
  options.schedule.kills = {{1, 5, 0}};  // so that there are leases
  options.schedule.lease_seconds = 0.002;
  std::vector<StepRecord> records;
  const std::string failure = Train(
      options, &Text(), [&](const StepRecord& record) { records.push_back(record); },
      [] { return false; });
  if (failure.empty()) {
    ExpectTheMonolithicCurve(records);
  } else {
    EXPECT_NE(failure.find("compute worker"), std::string::npos) << failure;
  }
}

TEST(Elastic, WhenTheLastComputeWorkerGoes_TheRunEndsAndSaysSo) {
  for (const Mode mode : {Mode::kSync, Mode::kAsync}) {
    Options options = Elastic(mode, 2);
    options.schedule.kills = {{0, 4, 0}, {1, 6, 0.5}};
    size_t steps = 0;
    const std::string failure = Train(
        options, &Text(), [&](const StepRecord&) { ++steps; }, [] { return false; });
    // Asynchronous, what it had sent may suffice for updates beyond.
    EXPECT_GE(steps, 6u);
    EXPECT_LE(steps, mode == Mode::kSync ? 6 : 7 + options.lag_bound);
    EXPECT_EQ(failure, "compute worker 1, the last one, died after " + std::to_string(steps) +
                           " of 40 steps");
  }
}

TEST(Elastic, StoppedBeforeSomebodyComes_DoesNotWaitForThem) {
  for (const Mode mode : {Mode::kSync, Mode::kAsync}) {
    Options options = Emulated(mode);
    options.steps = 100'000;
    options.schedule.joins = {{2, 90'000}};
    size_t steps = 0;
    EXPECT_EQ(
        Train(
            options, nullptr, [&](const StepRecord&) { ++steps; }, [&] { return steps >= 5; }),
        "");
    EXPECT_LT(steps, 1000u);
  }
}

TEST(Elastic, WithFullBuffersOnBothLinks_GoersHoldNobodyUp) {
  for (const Mode mode : {Mode::kSync, Mode::kAsync}) {
    Options options = Emulated(mode);
    options.update_workers = 2;
    options.gradients.shape.depth = options.weights.shape.depth = 1;
    options.gradients.shape.bytes_per_second = options.weights.shape.bytes_per_second = 1e9;
    options.schedule.lease_seconds = 0.2;
    options.schedule.joins = {{2, 20}};
    options.schedule.leaves = {{2, 10, 0}, {3, 12, 0.3}};
    options.schedule.kills = {{0, 15, 0.9}, {4, 25, 0}};
    TrainAll(options);
  }
}

TEST(WarmUp, IsSynchronousThenLags) {
  for (const Stale stale : {Stale::kWait, Stale::kDrop, Stale::kApply}) {
    Options options = Emulated(Mode::kAsync);
    options.stale = stale;
    options.lag_bound = 2;
    options.jitter = 0.5;
    options.schedule.warm_up_steps = 20;
    double lag_after = 0;
    for (const StepRecord& record : TrainAll(options)) {
      if (record.step < 20) {
        EXPECT_EQ(record.lag_max, 0u) << "step " << record.step;
      } else {
        lag_after += record.lag_mean;
      }
    }
    EXPECT_GT(lag_after, 0);
  }
}

TEST(WarmUp, LowersTheLearningRate) {
  Options options = Small(Mode::kMonolithic);
  options.steps = 30;
  const auto plain = TrainAll(options);
  options.schedule.warm_up_steps = 25;
  options.schedule.warm_up_rate = 0;
  const auto gentle = TrainAll(options);
  EXPECT_EQ(gentle[0].loss, plain[0].loss);
  EXPECT_LT(plain[10].loss, gentle[10].loss);
  EXPECT_NEAR(gentle[1].loss, gentle[0].loss, 0.05) << "no update to speak of with rate 0";
  options.mode = Mode::kSync;
  const auto synchronous = TrainAll(options);
  for (size_t i = 0; i < gentle.size(); ++i) {
    EXPECT_NEAR(synchronous[i].loss, gentle[i].loss, 1e-5 * gentle[i].loss);
  }
}

}  // namespace
}  // namespace poolscope::trainer
