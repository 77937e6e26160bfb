// Whole runs whose compute workers come, leave and die.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "reference-trainer/job.h"
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
    options.schedule.joins = {{2, 90'000}};
    ExpectStops(options);
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

TEST(AdaptiveUpdates, Synchronous_HaveTheMonolithicPlansAndCurve) {
  Options options = Small(Mode::kMonolithic);
  options.steps = 60;
  options.schedule.adaptive_updates = true;
  const auto monolithic = TrainAll(options);
  options.mode = Mode::kSync;
  options.compute_workers = 3;
  options.update_workers = 2;
  const auto synchronous = TrainAll(options);
  uint64_t fewest = UINT64_MAX, most = 0;
  for (size_t i = 0; i < monolithic.size(); ++i) {
    const uint64_t micro_batches = monolithic[i].micro_batches;
    fewest = std::min(fewest, micro_batches);
    most = std::max(most, micro_batches);
    ASSERT_EQ(synchronous[i].micro_batches, micro_batches) << "step " << i;
    EXPECT_EQ(monolithic[i].tokens, micro_batches * 4 * 32);
    EXPECT_NEAR(synchronous[i].loss, monolithic[i].loss, 1e-5 * monolithic[i].loss);
  }
  EXPECT_LT(fewest, most);
  EXPECT_GE(fewest, 1u);
  EXPECT_LE(most, 16u);
}

TEST(AdaptiveUpdates, Asynchronous_HoldGradientsOfNoMoreVersionsThanTheBoundAllows) {
  Options options = Small(Mode::kAsync);
  options.steps = 60;
  options.lag_bound = 2;
  options.compute_workers = 4;
  options.update_workers = 2;
  options.schedule.adaptive_updates = true;
  uint64_t held = 0, lag = 0;
  for (const StepRecord& record : TrainAll(options)) {
    held = std::max(held, record.versions_held);
    lag = std::max(lag, record.lag_max);
    EXPECT_LE(record.lag_max, 2u);
  }
  EXPECT_GE(lag, 1u);
  EXPECT_GE(held, 1u);
  EXPECT_LE(held, 3u);
}

uint64_t MedianTokens(std::vector<StepRecord> records) {
  std::sort(records.begin(), records.end(),
            [](const StepRecord& a, const StepRecord& b) { return a.tokens < b.tokens; });
  return records[records.size() / 2].tokens;
}

TEST(DynamicBatch, GrowsWhereGradientsPileUpAndShrinksWhereTheyDoNot) {
  Options options = Emulated(Mode::kAsync);
  options.model.batch = 8;
  options.model.context = 32;
  options.lag_bound = 3;
  options.gradients.shape.depth = 2;
  options.schedule.dynamic_batch = true;
  const uint64_t usual = options.micro_batches * 8 * 32;
  options.gradients.shape.depth = 64;
  EXPECT_EQ(MedianTokens(TrainAll(options)), usual * 6 / 8);
  options.gradients.shape.depth = 1;
  options.gradient_bytes = 4'000'000;  // 4 ms each
  options.gradients.shape.bytes_per_second = 1e9;
  EXPECT_EQ(MedianTokens(TrainAll(options)), usual * 10 / 8);
}

// Five sequences as one micro-batch, or its first three as one and its last two as another: the sum
// of gradients is the same.
TEST(DynamicBatch, WeightsGradientsByTheirTokens) {
  Options options = Small(Mode::kAsync);
  options.schedule.dynamic_batch = true;  // room for five
  Job job(options, &Text());
  const auto sum_of = [&](const std::vector<Batch>& batches) {
    const auto replica = job.MakeReplica();
    replica->ClearGradients();
    for (const Batch& batch : batches) {
      replica->Forward(batch);
      replica->Backward();
    }
    const auto sum = replica->Gradients(job.AllRanges());
    return std::vector<float>(sum.begin(), sum.end());
  };
  const Batch five = *job.ReadBatch(7, 5), three = *job.ReadBatch(7, 3);
  Batch two = *job.ReadBatch(0, 2);
  const auto cut = static_cast<std::ptrdiff_t>(three.tokens.size());
  two.tokens.assign(five.tokens.begin() + cut, five.tokens.end());
  two.targets.assign(five.targets.begin() + cut, five.targets.end());
  const auto whole = sum_of({five}), parts = sum_of({three, two});
  for (size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(whole[i], parts[i], 1e-6) << i;
}

TEST(DynamicBatch, Learns) {
  Options options = Small(Mode::kAsync);
  options.steps = 120;
  options.schedule.dynamic_batch = true;
  const auto records = TrainAll(options);
  EXPECT_LT(records.back().loss, 0.8 * records.front().loss);
}

}  // namespace
}  // namespace poolscope::trainer
