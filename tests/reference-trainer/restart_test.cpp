// Update workers that die: all go back to the newest checkpoint, or to the beginning, and go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "reference-trainer/checkpoint.h"
#include "reference-trainer/shaped_link.h"
#include "tests/reference-trainer/parse_options.h"
#include "tests/reference-trainer/training.h"

namespace poolscope::trainer {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Restart : public testing::Test {
 protected:
  Restart() { fs::remove_all(folder_); }
  ~Restart() override { fs::remove_all(folder_); }

  Options Run(Mode mode) const {
    Options options;
    options.mode = mode;
    options.model = {1, 16, 2, 16, 2};
    options.steps = 30;
    options.compute_workers = 2;
    options.update_workers = 2;
    options.schedule.lease_seconds = 0.25;
    return options;
  }
  void KeepCheckpoints(Options& options, uint64_t every) const {
    options.checkpoint.folder = folder_;
    options.checkpoint.every = every;
  }

  // Of the steps, each of which is told once and in order.
  std::vector<double> Losses(const Options& options) {
    fs::remove_all(folder_);
    totals_ = {};
    std::vector<double> losses;
    for (const StepRecord& record : TrainAll(options, Text(), &totals_)) {
      losses.push_back(record.loss);
      EXPECT_EQ(record.micro_batches, options.micro_batches);
      EXPECT_LE(record.lag_max, options.mode == Mode::kAsync ? options.lag_bound : 0);
    }
    return losses;
  }
  void ExpectTheCleanCurve(Options options, uint64_t restarts) {
    const auto losses = Losses(options);
    EXPECT_GE(totals_.restarts.count, restarts);
    options.schedule.update_kills.clear();
    EXPECT_EQ(losses, Losses(options));
    EXPECT_EQ(totals_.restarts.count, 0u);
  }

  RunTotals totals_;
  const std::string folder_ =
      testing::TempDir() + "poolscope-restart-test-" + std::to_string(getpid());
};

// Before a gradient was reduced, between two, and before the update.
TEST_F(Restart, SynchronousWithADeadUpdateWorker_HasTheCleanCurveToTheBit) {
  for (const double progress : {0.0, 0.5, 0.9}) {
    Options options = Run(Mode::kSync);
    if (progress > 0) KeepCheckpoints(options, 10);
    options.schedule.update_kills = {{1, 13, progress}};
    ExpectTheCleanCurve(options, 1);
  }
}

TEST_F(Restart, GoesBackToTheNewestCheckpoint_OrElseToTheBeginning) {
  Options options = Run(Mode::kSync);
  options.schedule.update_kills = {{0, 13, 0}};
  Losses(options);
  EXPECT_EQ(totals_.restarts.steps, 13u);
  KeepCheckpoints(options, 5);
  Losses(options);
  EXPECT_EQ(totals_.restarts.steps, 3u);
  KeepCheckpoints(options, 20);
  Losses(options);
  EXPECT_EQ(totals_.restarts.steps, 13u);
}

TEST_F(Restart, OfManyWorkersManyTimes_HasTheCleanCurveToTheBit) {
  for (const uint64_t workers : {1, 12}) {
    Options options = Run(Mode::kSync);
    options.compute_workers = workers;
    options.update_workers = 3;
    options.micro_batches = 6;
    KeepCheckpoints(options, 7);
    options.schedule.update_kills = {{0, 0, 0.5}, {2, 8, 0.3}, {0, 15, 0}, {1, 29, 0.9}};
    ExpectTheCleanCurve(options, 4);
  }
}

TEST_F(Restart, WithStreamsThatRemember_HasTheCleanCurveToTheBit) {
  Options options = Run(Mode::kSync);
  options.gradients.codec = {ValueCoder::kTopK, ByteCoder::kNone, 0.05};
  options.weights.codec = {ValueCoder::kOneBitDelta};
  KeepCheckpoints(options, 10);
  options.schedule.update_kills = {{1, 13, 0.5}};
  ExpectTheCleanCurve(options, 1);
  options.state.layout = ShardLayout::kHead;
  options.state.offload = {Offload::kFile, 0.2, testing::TempDir()};
  options.checkpoint.full = true;
  ExpectTheCleanCurve(options, 1);
}

TEST_F(Restart, WithExperts_HasTheCleanCurve) {
  Options options = Run(Mode::kSync);
  options.model.experts.count = 4;
  options.compute_workers = 1;  // with several a choice may turn
  options.schedule.update_kills = {{1, 13, 0.5}};
  ExpectTheCleanCurve(options, 1);
}

TEST_F(Restart, WithASumInsideTheComputePool_HasTheCleanCurveToTheBit) {
  Options options = Run(Mode::kSync);
  options.all_reduce.on = true;
  KeepCheckpoints(options, 10);
  options.schedule.update_kills = {{0, 13, 0}};
  ExpectTheCleanCurve(options, 1);
}

TEST_F(Restart, WithGradientsThatGoOutDuringTheBackwardPass_HasTheCleanCurveToTheBit) {
  Options options = Run(Mode::kSync);
  options.gradient_buckets = 3;
  KeepCheckpoints(options, 10);
  options.schedule.update_kills = {{0, 13, 0.5}};
  ExpectTheCleanCurve(options, 1);
}

TEST_F(Restart, OverLinksThatLoseAndRepeat_HasTheCleanCurveToTheBit) {
  Options options = Run(Mode::kSync);
  for (WireOptions* wire : {&options.reliability.gradients, &options.reliability.weights}) {
    wire->faults.loss = wire->faults.duplicate = 0.05;
  }
  KeepCheckpoints(options, 10);
  options.schedule.update_kills = {{1, 13, 0.5}};
  ExpectTheCleanCurve(options, 1);
  options.reliability.weights.reliable = false;
  ExpectTheCleanCurve(options, 1);
}

TEST_F(Restart, AmongComputeWorkersThatComeLeaveAndDie_HasTheCleanCurve) {
  Options options = Run(Mode::kSync);
  const auto clean = Losses(options);
  options.compute_workers = 3;
  KeepCheckpoints(options, 5);
  options.schedule.joins = {{1, 12}};
  options.schedule.leaves = {{0, 11, 0.5}};
  options.schedule.kills = {{1, 8, 0.3}};
  // Back to a step before the one joined and the other left.
  options.schedule.update_kills = {{0, 13, 0.5}};
  const auto losses = Losses(options);
  EXPECT_GE(totals_.restarts.count, 1u);
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], clean[i], 1e-6 * clean[i]);
}

TEST_F(Restart, Asynchronous_KeepsItsBoundAndTakesInEveryMicroBatchOnce) {
  for (const Stale stale : {Stale::kWait, Stale::kRecompute, Stale::kDrop}) {
    Options options = Run(Mode::kAsync);
    options.stale = stale;
    options.compute_workers = stale == Stale::kRecompute ? 1 : 4;
    options.steps = 60;
    KeepCheckpoints(options, 10);
    options.schedule.update_kills = {{0, 24, 0.5}, {1, 47, 0}};
    const auto losses = Losses(options);
    EXPECT_GE(totals_.restarts.count, 2u);
    EXPECT_LT(losses.back(), losses.front());
    const auto found = StateFolder(folder_, FactsOf(options, &Text())).LoadNewest();
    const auto& data = std::get<StateFolder::Loaded>(found).state.data;
    if (stale != Stale::kDrop) {
      EXPECT_EQ(data.next - data.open.size(), options.steps * options.micro_batches);
    }
  }
}

TEST_F(Restart, WithFullBuffersOnBothLinks_HoldsNobodyUp) {
  for (const Mode mode : {Mode::kSync, Mode::kAsync}) {
    Options options = Emulated(mode);
    options.update_workers = 2;
    options.gradients.shape.depth = options.weights.shape.depth = 1;
    options.gradients.shape.bytes_per_second = options.weights.shape.bytes_per_second = 1e9;
    options.gradients.shape.latency_ns = 3'000'000;
    options.schedule.lease_seconds = 0.2;
    options.schedule.update_kills = {{0, 20, 0.5}, {1, 40, 0.5}};
    TrainAll(options, Text(), &totals_);
    EXPECT_GE(totals_.restarts.count, 2u);
  }
}

// What a lane still carries when a link is cleared arrives nowhere and takes no slot.
TEST_F(Restart, OfALink_ThrowsAwayWhatIsQueuedOnTheWireAndHere) {
  Signal receiver, sender;
  ShapedLink link("test", {0, 100'000'000, 1, 3}, 1, {&receiver});
  const auto send = [&] {
    auto message = std::make_unique<Message>();
    message->sequence = link.NextSequence(0);
    ASSERT_EQ(link.TryReserve(0, sender), Reserved::kYes);
    link.HandOver(std::move(message));
  };
  for (int i = 0; i < 3; ++i) send();
  ASSERT_EQ(link.TryReserve(0, sender), Reserved::kFull);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // on the wire
  link.Clear();
  for (int i = 0; i < 3; ++i) send();
  std::vector<uint64_t> arrived;
  while (arrived.size() < 3) {
    const uint64_t ticket = receiver.Ticket();
    if (const MessagePtr message = link.TryTake(0)) {
      arrived.push_back(message->sequence);
    } else {
      receiver.WaitPast(ticket);
    }
  }
  EXPECT_EQ(arrived, (std::vector<uint64_t>{3, 4, 5}));
  EXPECT_EQ(link.InUse(0), 0u);
}

TEST_F(Restart, ThatCannotBe_IsRefusedInOneLine) {
  const std::pair<const char*, const char*> refused[] = {
      {"--kill update/0@5 --mode monolithic", "--kill needs --mode disaggregated"},
      {"--kill update/0@5 --transport mpi", "needs --transport inprocess"},
      {"--kill update/0@5 --weights-mode fetch", "--weights-mode fetch"},
      {"--kill update/0@5 --adaptive-updates", "--adaptive-updates"},
      {"--kill update/1@5", "there are 1 update workers and 200 steps"},
      {"--kill update/0@200", "there are 1 update workers and 200 steps"},
      {"--kill rollout/0@5", "is not POOL/WORKER@STEP"},
  };
  for (const auto& [line, why] : refused) EXPECT_THAT(Error(line), HasSubstr(why));
}

}  // namespace
}  // namespace poolscope::trainer
