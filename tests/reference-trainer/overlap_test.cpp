// Gradients that go out in buckets while the backward pass goes on.
#include <gmock/gmock.h>

#include "reference-trainer/gradient_buckets.h"
#include "reference-trainer/log.h"
#include "reference-trainer/model/shard_layout.h"
#include "reference-trainer/model/stages.h"
#include "tests/reference-trainer/parse_options.h"
#include "tests/reference-trainer/training.h"

namespace poolscope::trainer {
namespace {

using testing::HasSubstr;

TEST(GradientBuckets, PiecesAreAllOfEachShard_FromTheEndOfTheModelOn) {
  const GptShape shape = ShapeOf({3, 32, 2, 32, 4});
  const size_t stages = StagesOf(shape).size();
  for (const ShardLayout layout : {ShardLayout::kFlat, ShardLayout::kLayer, ShardLayout::kHead}) {
    const auto shards = LayOut(layout, shape, 3);
    const GradientBuckets buckets(4, shape, shards, {1000, 2000, 3001});
    size_t stage = stages;
    for (const auto& bucket : buckets.buckets()) {
      EXPECT_LE(bucket.last_stage, stage);
      stage = bucket.last_stage;
    }
    EXPECT_EQ(stage, 0u);
    for (size_t shard = 0; shard < 3; ++shard) {
      size_t end = SizeOf(shards[shard]);
      uint64_t bytes = 0;
      for (uint64_t piece = 0; piece < buckets.PiecesOf(shard); ++piece) {
        EXPECT_EQ(buckets.PieceOf(shard, piece).part.end, end);
        EXPECT_GT(buckets.PieceOf(shard, piece).part.size(), 0u);
        end = buckets.PieceOf(shard, piece).part.begin;
        bytes += buckets.PieceOf(shard, piece).bytes;
      }
      EXPECT_EQ(end, 0u);
      EXPECT_EQ(bytes, std::vector<uint64_t>({1000, 2000, 3001})[shard]);
    }
  }
}

TEST(Overlap, LeavesTheLossAndTheBytesAsTheyAre) {
  for (const auto& [workers, buckets, layout] : {std::tuple{1, 2, ShardLayout::kFlat},
                                                 {2, 7, ShardLayout::kLayer},
                                                 {3, 3, ShardLayout::kHead}}) {
    Options options = Small(Mode::kSync);
    options.model.layers = 2;
    options.steps = 25;
    options.compute_workers = 2;
    options.update_workers = static_cast<uint64_t>(workers);
    options.state.layout = layout;
    RunTotals at_the_end, in_buckets;
    const auto expected = TrainAll(options, Text(), &at_the_end);
    options.gradient_buckets = static_cast<uint64_t>(buckets);
    const auto records = TrainAll(options, Text(), &in_buckets);
    for (size_t i = 0; i < records.size(); ++i) {
      EXPECT_EQ(records[i].loss, expected[i].loss) << buckets << " buckets, step " << i;
    }
    EXPECT_EQ(in_buckets.gradients.wire_bytes, at_the_end.gradients.wire_bytes);
  }
}

TEST(Overlap, HidesTheTransferBehindTheBackwardPass) {
  Options options = Emulated(Mode::kSync);
  options.steps = 16;
  options.compute_workers = 1;
  options.micro_batches = 1;
  options.backward_seconds = 0.040;
  options.gradient_bytes = 40'000'000;
  options.gradients.shape.bytes_per_second = 1e9;
  const double exposed = *Summarize(TrainAll(options)).step_seconds_median;
  options.gradient_buckets = 8;
  const double hidden = *Summarize(TrainAll(options)).step_seconds_median;
  // 40 ms of transfer, of which 7 of 8 parts are hidden.
  EXPECT_GT(exposed - hidden, 0.025);
}

TEST(Overlap, WithBuffersOfOne_DoesNotDeadlock) {
  for (const Stale stale : {Stale::kWait, Stale::kDrop, Stale::kRecompute, Stale::kApply}) {
    Options options = Emulated(Mode::kAsync);
    options.steps = 30;
    options.stale = stale;
    options.update_workers = 3;
    options.gradient_buckets = 4;
    options.gradients.shape.depth = options.weights.shape.depth = 1;
    options.gradients.shape.bytes_per_second = options.weights.shape.bytes_per_second = 1e9;
    options.jitter = 0.5;
    TrainAll(options);
  }
}

TEST(Overlap, WithErrorFeedback_LearnsAsWithout) {
  Options options = Small(Mode::kSync);
  options.steps = 100;
  options.gradients.codec = std::get<Codec>(ParseCodec("topk:0.1", CodecUse::kGradients));
  const double at_the_end = TrainAll(options).back().loss;
  options.gradient_buckets = 3;
  EXPECT_NEAR(TrainAll(options).back().loss, at_the_end, 0.15 * at_the_end);
}

TEST(Overlap, WhenTheRunFailsOrStops_KeepsNobodyWaiting) {
  Options options = Emulated(Mode::kSync);
  options.gradient_buckets = 5;
  ExpectStops(options);
  options.reliability.gradients.faults.loss = 1;
  options.reliability.limit = 1;
  options.gradients.shape.depth = 1;
  EXPECT_THAT(Train(
                  options, nullptr, [](const StepRecord&) {}, [] { return false; }),
              HasSubstr("gradients"));
}

TEST(Overlap, RefusesWhatHasNoBucketsToSend) {
  EXPECT_THAT(Error("--gradient-buckets 4 --mode monolithic"), HasSubstr("disaggregated"));
  EXPECT_THAT(Error("--gradient-buckets 4 --compute-allreduce"), HasSubstr("--compute-allreduce"));
  EXPECT_THAT(Error("--gradient-buckets 4 --experts 4"), HasSubstr("--experts"));
  EXPECT_THAT(Error("--gradient-buckets 4 --weights-mode fetch"), HasSubstr("fetch"));
  EXPECT_EQ(Good("--gradient-buckets 4 --async").gradient_buckets, 4u);
}

}  // namespace
}  // namespace poolscope::trainer
