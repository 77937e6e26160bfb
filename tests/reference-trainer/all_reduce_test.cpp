// The sum of gradients that compute workers make among themselves.
#include <gmock/gmock.h>

#include "tests/reference-trainer/parse_options.h"
#include "tests/reference-trainer/training.h"

namespace poolscope::trainer {
namespace {

using testing::HasSubstr;

Options InARing(Options options) {
  options.all_reduce.on = true;
  return options;
}

TEST(AllReduce, LeavesTheLossAsItIs_AndSendsOneSum) {
  for (const auto& [compute, update] : {std::pair{2, 1}, {3, 2}, {4, 3}, {6, 1}}) {
    Options options = Small(Mode::kSync);
    options.steps = 40;
    options.compute_workers = static_cast<uint64_t>(compute);
    options.update_workers = static_cast<uint64_t>(update);
    RunTotals apart, together;
    const auto expected = TrainAll(options, Text(), &apart);
    const auto records = TrainAll(InARing(options), Text(), &together);
    for (size_t i = 0; i < records.size(); ++i) {
      // Sums above 2⁻⁴ are rounded by their order, of which two have one.
      const double tolerance = compute == 2 ? 0 : 1e-5 * expected[i].loss;
      EXPECT_NEAR(records[i].loss, expected[i].loss, tolerance) << compute << ", step " << i;
      EXPECT_EQ(records[i].tokens, expected[i].tokens);
    }
    const uint64_t ranks = std::min(options.compute_workers, options.micro_batches);
    EXPECT_EQ(apart.gradients.wire_bytes, ranks * together.gradients.wire_bytes);
    EXPECT_EQ(apart.all_reduce.wire_bytes, 0u);
    // Each of R ranks passes 2 (R − 1) ÷ R of the values on, and one sum is all values.
    EXPECT_EQ(together.all_reduce.wire_bytes, 2 * (ranks - 1) * together.gradients.wire_bytes);
  }
}

TEST(AllReduce, OverRingsThatChange_LeavesTheLossAsItIs) {
  Options options = Small(Mode::kSync);
  options.steps = 60;
  options.compute_workers = 4;
  options.micro_batches = 2;
  options.schedule.adaptive_updates = true;
  options.schedule.adaptive_min = 1;
  options.schedule.adaptive_max = 8;
  const auto expected = TrainAll(options);
  const auto records = TrainAll(InARing(options));
  uint64_t least = UINT64_MAX, most = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_NEAR(records[i].loss, expected[i].loss, 1e-5 * expected[i].loss) << "step " << i;
    least = std::min(least, records[i].micro_batches);
    most = std::max(most, records[i].micro_batches);
  }
  EXPECT_LT(least, most);
}

TEST(AllReduce, WithErrorFeedback_LearnsAsWithout) {
  Options options = Small(Mode::kSync);
  options.update_workers = 2;
  options.gradients.codec = std::get<Codec>(ParseCodec("topk:0.1", CodecUse::kGradients));
  const double apart = TrainAll(options).back().loss;
  EXPECT_NEAR(TrainAll(InARing(options)).back().loss, apart, 0.15 * apart);
}

TEST(AllReduce, OverSlowHops_TakesAtLeastItsTransfers) {
  Options options = InARing(Emulated(Mode::kSync));
  options.steps = 10;
  options.gradient_bytes = 8'000'000;
  options.all_reduce.hop.bytes_per_second = 1e9;  // 6 hops of 2 MB: 12 ms
  options.all_reduce.hop.latency_ns = 1'000'000;  // and 6 of latency
  const auto records = TrainAll(options);
  EXPECT_GE(records.back().end_ns - records.front().end_ns, 9 * 17'500'000);
}

TEST(AllReduce, WhenTheRunFailsOrStops_KeepsNobodyWaiting) {
  Options options = InARing(Emulated(Mode::kSync));
  options.all_reduce.hop.latency_ns = 2'000'000;
  ExpectStops(options);
  options.update_workers = 3;
  options.reliability.gradients.faults.loss = 1;
  options.reliability.limit = 1;
  EXPECT_THAT(Train(
                  options, nullptr, [](const StepRecord&) {}, [] { return false; }),
              HasSubstr("gradients"));
}

TEST(AllReduce, RefusesWhatHasNoSum) {
  EXPECT_THAT(Error("--compute-allreduce --async"), HasSubstr("needs --sync"));
  EXPECT_THAT(Error("--compute-allreduce --mode monolithic"), HasSubstr("needs --sync"));
  EXPECT_THAT(Error("--compute-allreduce --compute-workers 1"), HasSubstr("2 or more"));
  EXPECT_THAT(Error("--compute-allreduce --join 1@5"), HasSubstr("fixed"));
  EXPECT_THAT(Error("--allreduce-bandwidth 1G"), HasSubstr("needs --compute-allreduce"));
  EXPECT_EQ(Good("--compute-allreduce --allreduce-latency-ms 2 --device emulated --time-scale 0.5")
                .all_reduce.hop.latency_ns,
            1'000'000);
}

}  // namespace
}  // namespace poolscope::trainer
