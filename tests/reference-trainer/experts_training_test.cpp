// Whole runs with a mixture of experts: what they learn and how long a layer takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference-trainer/run.h"
#include "tests/reference-trainer/training.h"

namespace poolscope::trainer {
namespace {

Options WithExperts(Mode mode) {
  Options options = Small(mode);
  options.steps = 100;
  options.model.experts = {4, 2, 0, 0.01};
  return options;
}

double StepSeconds(const std::vector<StepRecord>& records) {
  std::vector<int64_t> ns;
  for (size_t i = 1; i < records.size(); ++i)
    ns.push_back(records[i].end_ns - records[i - 1].end_ns);
  std::nth_element(ns.begin(), ns.begin() + static_cast<std::ptrdiff_t>(ns.size() / 2), ns.end());
  return static_cast<double>(ns[ns.size() / 2]) / 1e9;
}

TEST(ExpertsTraining, Loss_FallsAndNoExpertDies) {
  RunTotals totals;
  const auto records = TrainAll(WithExperts(Mode::kMonolithic), Text(), &totals);
  EXPECT_NEAR(records.front().loss, std::log(256.0), 0.5);
  EXPECT_LT(records.back().loss, 0.6 * records.front().loss);
  // Every token of every micro-batch and layer has two choices.
  const uint64_t choices = 100 * 4 * (4 * 32) * 2;
  EXPECT_EQ(std::accumulate(totals.expert_tokens.begin(), totals.expert_tokens.end(), 0ULL),
            choices);
  for (const uint64_t each : totals.expert_tokens) EXPECT_GT(each, choices / 4 / 5);
}

TEST(ExpertsTraining, SynchronousOnAnyWorkers_HasAboutTheMonolithicLoss) {
  // About: what a sum of gradients above 2⁻⁴ rounds away may turn a router's choice.
  const auto expected = TrainAll(WithExperts(Mode::kMonolithic));
  Options options = WithExperts(Mode::kSync);
  options.compute_workers = 3;
  options.update_workers = 2;
  RunTotals totals;
  const auto records = TrainAll(options, Text(), &totals);
  for (size_t i = 0; i < records.size(); ++i) {
    ASSERT_NEAR(records[i].loss, expected[i].loss, 0.02 * expected[i].loss) << "step " << i;
  }
  EXPECT_EQ(std::accumulate(totals.expert_tokens.begin(), totals.expert_tokens.end(), 0ULL),
            100u * 4 * (4 * 32) * 2);
}

TEST(ExpertsTraining, AuxiliaryLoss_EvensTheLoadOfASkewedRouter) {
  const auto most = [](double balance) {
    Options options = WithExperts(Mode::kMonolithic);
    options.model.experts = {4, 1, 1, balance};
    RunTotals totals;
    TrainAll(options, Text(), &totals);
    return *std::max_element(totals.expert_tokens.begin(), totals.expert_tokens.end());
  };
  EXPECT_LT(static_cast<double>(most(0.1)), 0.8 * static_cast<double>(most(0)));
}

TEST(ExpertsTraining, EmulatedLayer_TakesAsLongAsItsMostLoadedExpert) {
  // One layer of width 32: experts are 8192 of 20480 products, of which a load of 83 % on one of
  // four makes 3.3 times as many: 1.9 times the stated time.
  const auto seconds = [](double skew) {
    Options options = Emulated(Mode::kMonolithic);
    options.steps = 15;
    options.forward_seconds = options.backward_seconds = 0.004;
    options.update_seconds = 0;
    options.model = {1, 32, 2, 32, 16};
    options.model.experts = {4, 1, skew, 0};
    return StepSeconds(TrainAll(options));
  };
  const double even = seconds(0), skewed = seconds(3);
  EXPECT_NEAR(even, 4 * 0.008, 0.15 * 4 * 0.008);
  EXPECT_NEAR(skewed / even, 1.9, 0.25);
}

}  // namespace
}  // namespace poolscope::trainer
