#include "reference-trainer/log.h"

#include <gtest/gtest.h>

#include <cmath>

namespace poolscope::trainer {
namespace {

std::vector<StepRecord> Steps(size_t count, int64_t step_ns) {
  std::vector<StepRecord> records(count);
  for (size_t i = 0; i < count; ++i) {
    records[i].step = i;
    records[i].loss = static_cast<double>(i);
    records[i].tokens = 100;
    records[i].end_ns = static_cast<int64_t>(i + 1) * step_ns;
  }
  return records;
}

TEST(Summary, LeavesOutTheFirstTenth) {
  std::vector<StepRecord> records = Steps(20, 1'000'000'000);
  for (size_t i = 2; i < 20; ++i) records[i].end_ns += 50'000'000'000;  // a slow second step
  const Summary summary = Summarize(records);
  EXPECT_DOUBLE_EQ(*summary.step_seconds_median, 1);
  EXPECT_DOUBLE_EQ(*summary.tokens_per_second, 100);
  EXPECT_EQ(summary.steps, 20u);
}

TEST(Summary, FinalLoss_IsTheMeanOfTheLastTwenty) {
  EXPECT_DOUBLE_EQ(*Summarize(Steps(100, 1000)).final_loss, 89.5);
}

TEST(Summary, OfNoOrOneStep_HasNoTimes) {
  EXPECT_FALSE(Summarize({}).step_seconds_median);
  EXPECT_FALSE(Summarize(Steps(1, 1000)).tokens_per_second);
}

TEST(Summary, WithoutArithmetic_HasNoLoss) {
  std::vector<StepRecord> records = Steps(5, 1000);
  for (StepRecord& each : records) each.loss = std::nan("");
  EXPECT_FALSE(Summarize(records).final_loss);
}

}  // namespace
}  // namespace poolscope::trainer
