// Checkpoints: training goes on from them as if nothing had been, or says why not.
#include "reference-trainer/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "reference-trainer/admission.h"
#include "reference-trainer/run.h"
#include "tests/reference-trainer/text.h"

namespace poolscope::trainer {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Checkpoint : public testing::Test {
 protected:
  Checkpoint() { fs::remove_all(folder_); }
  ~Checkpoint() override { fs::remove_all(folder_); }

  Options Run(Mode mode, uint64_t steps) const {
    Options options;
    options.mode = mode;
    options.model = {2, 16, 2, 16, 2};
    options.steps = steps;
    options.update_workers = 2;
    options.checkpoint.folder = folder_;
    options.checkpoint.every = 10;
    return options;
  }
  Options Resumed(Options options, uint64_t steps) const {
    options.steps = steps;
    options.checkpoint.resume = folder_;
    return options;
  }
  Options Plain(Options options, uint64_t steps) const {
    options.steps = steps;
    options.checkpoint = {};
    return options;
  }

  // Of every step, by step; `failure` is what the run is to end with.
  std::map<uint64_t, double> Losses(const Options& options, const std::string& failure = "") const {
    std::map<uint64_t, double> losses;
    const std::string error = Train(
        options, options.math ? &Text() : nullptr,
        [&](const StepRecord& record) { losses[record.step] = record.loss; }, [] { return false; });
    EXPECT_EQ(error.empty(), failure.empty()) << error;
    EXPECT_THAT(error, HasSubstr(failure));
    EXPECT_THAT(error, testing::Not(HasSubstr("\n")));
    return losses;
  }

  // The first run's losses, then the other's.
  std::map<uint64_t, double> Together(const Options& first, const Options& second) const {
    auto losses = Losses(first);
    for (const auto& [step, loss] : Losses(second)) {
      EXPECT_GE(step, first.steps);
      losses[step] = loss;
    }
    return losses;
  }

  void FlipByte(const fs::path& path, int64_t at) const {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
  }

  const std::string folder_ =
      testing::TempDir() + "poolscope-checkpoint-test-" + std::to_string(getpid());
};

TEST_F(Checkpoint, Resumed_GivesTheCurveOfOneRunToTheBit) {
  for (const Mode mode : {Mode::kSync, Mode::kMonolithic}) {
    const Options first = Run(mode, 25);
    EXPECT_EQ(Together(first, Resumed(first, 50)), Losses(Plain(first, 50))) << ModeName(mode);
    fs::remove_all(folder_);
  }
}

TEST_F(Checkpoint, ResumedOnOtherWorkersLayoutsAndOffloads_GivesTheSameCurveToTheBit) {
  const Options first = Run(Mode::kSync, 20);
  const auto expected = Losses(Plain(first, 60));
  Options second = Resumed(first, 40);
  second.update_workers = 5;
  second.state.layout = ShardLayout::kHead;
  second.state.offload = {Offload::kFile, 0.2, testing::TempDir()};
  auto losses = Together(first, second);
  Options third = Resumed(first, 60);
  third.update_workers = 1;
  for (const auto& [step, loss] : Losses(third)) losses[step] = loss;
  EXPECT_EQ(losses, expected);
}

TEST_F(Checkpoint, ResumedWithErrorFeedbackAndDeltas_GivesTheSameCurveToTheBit) {
  for (const auto values : {ValueCoder::kTopK, ValueCoder::kOneBit}) {
    Options first = Run(Mode::kSync, 25);
    first.gradients.codec = {values, ByteCoder::kNone, 0.05};
    first.weights.codec = {ValueCoder::kOneBitDelta};
    Options second = Resumed(first, 50);
    second.update_workers = 3;
    // Other shards make other 1-bit scales: the first run has as many.
    first.update_workers = second.update_workers;
    EXPECT_EQ(Together(first, second), Losses(Plain(first, 50)));
    fs::remove_all(folder_);
  }
}

TEST_F(Checkpoint, ResumedInAsynchronousTraining_TakesEveryMicroBatchOnceAndLearns) {
  Options first = Run(Mode::kAsync, 100);
  first.compute_workers = 3;
  const auto losses = Together(first, Resumed(first, 200));
  EXPECT_EQ(losses.size(), 200u);
  EXPECT_LT(losses.rbegin()->second, 0.8 * losses.begin()->second);
  const auto found = StateFolder(folder_, FactsOf(first, &Text())).LoadNewest();
  const auto& state = std::get<StateFolder::Loaded>(found).state;
  EXPECT_EQ(state.step, 200u);
  EXPECT_EQ(state.data.next - state.data.open.size(), 200u * first.micro_batches);
}

TEST_F(Checkpoint, Admission_AfterARewind_GivesOutWhatWasOpenFirst) {
  Pace pace({.steps = 10, .micro_batches = 2, .lag_bound = 1});
  Admission admission({10, Stale::kWait, 1}, pace);
  admission.Rewind(3, {9, {4, 7, 8}});
  std::vector<uint64_t> data;
  for (int i = 0; i < 4; ++i) data.push_back(admission.TryStart(0, 3).data);
  EXPECT_EQ(data, (std::vector<uint64_t>{4, 7, 8, 9}));
  admission.Ask(0);  // data 4 and 8 are the step's
  admission.Ask(2);
  admission.Updated();
  EXPECT_EQ(admission.PositionAt(4), (DataPosition{9, {7}}));
}

TEST_F(Checkpoint, OnlyTheNewestAreKept_AndNothingElseIsLeft) {
  Options options = Run(Mode::kSync, 45);
  options.checkpoint.keep = 3;
  Losses(options);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_))
    names.push_back(entry.path().filename());
  EXPECT_THAT(names,
              testing::UnorderedElementsAre("step-000000000030.json", "step-000000000030.state",
                                            "step-000000000040.json", "step-000000000040.state",
                                            "step-000000000045.json", "step-000000000045.state"));
}

TEST_F(Checkpoint, OfAnotherRun_IsRefusedByTheFlagThatDiffers) {
  const Options first = Run(Mode::kSync, 10);
  Losses(first);
  const auto refused = [&](const std::string& why, const auto& change) {
    Options other = Resumed(first, 20);
    change(other);
    EXPECT_TRUE(Losses(other, why).empty());
  };
  refused("--width 16, this run 32", [](Options& o) { o.model.width = 32; });
  refused("--seed 1, this run 2", [](Options& o) { o.seed = 2; });
  refused("--micro-batches 4, this run 8", [](Options& o) { o.micro_batches = 8; });
  refused("more than --steps 5", [](Options& o) { o.steps = 5; });
  refused("no checkpoint in /nowhere", [](Options& o) { o.checkpoint.resume = "/nowhere"; });
  refused("holds checkpoints", [](Options& o) { o.checkpoint.resume = ""; });
}

TEST_F(Checkpoint, OfAsynchronousTraining_IsRefusedBySynchronousWhereOutOfOrder) {
  const Options options = Run(Mode::kSync, 20);
  const StateFolder folder(folder_, FactsOf(options, &Text()));
  ASSERT_EQ(folder.Prepare(), "");
  TrainingState state;
  state.step = 5;
  state.data = {21, {3}};
  ASSERT_EQ(folder.Write(state, 2, {}), "");
  EXPECT_TRUE(Losses(Resumed(options, 20), "go on with --async").empty());
}

TEST_F(Checkpoint, DamagedAnywhere_IsPassedOverForTheOneBefore) {
  const Options first = Run(Mode::kSync, 20);
  const auto expected = Losses(Plain(first, 30));
  Losses(first);
  const fs::path newest = fs::path(folder_) / "step-000000000020";
  const fs::path copy = folder_ + "-copy";
  for (const char* suffix : {".json", ".state"}) {
    const auto size = static_cast<int64_t>(fs::file_size(newest.string() + suffix));
    for (const int64_t at : {int64_t{0}, size / 2, size - 1, int64_t{-1}}) {
      fs::remove_all(copy);
      fs::copy(folder_, copy);
      const fs::path victim = copy / (newest.filename().string() + suffix);
      if (at >= 0) {
        FlipByte(victim, at);
      } else {
        fs::resize_file(victim, static_cast<uintmax_t>(size) - 3);
      }
      Options second = Resumed(first, 30);
      second.checkpoint.folder = "";
      second.checkpoint.resume = copy;
      const auto losses = Losses(second);
      ASSERT_EQ(losses.size(), 20u) << suffix << " at " << at;
      for (const auto& [step, loss] : losses) EXPECT_EQ(loss, expected.at(step));
    }
  }
  // And with none that is whole the run says so.
  for (const auto& entry : fs::directory_iterator(copy)) FlipByte(entry.path(), 1);
  Options second = Resumed(first, 30);
  second.checkpoint.folder = "";
  second.checkpoint.resume = copy;
  EXPECT_TRUE(Losses(second, "no whole checkpoint").empty());
  fs::remove_all(copy);
}

TEST_F(Checkpoint, OnAFullDisk_EndsTheRunWithOneLineAndKeepsTheOneBefore) {
  std::signal(SIGXFSZ, SIG_IGN);
  const Options first = Run(Mode::kSync, 10);
  Losses(first);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{16 << 10, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  for (const Mode mode : {Mode::kSync, Mode::kMonolithic}) {
    Options second = Resumed(first, 1000);
    second.mode = mode;
    const auto losses = Losses(second, "cannot write checkpoint");
    EXPECT_LT(losses.size(), 900u);
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(Losses(Resumed(first, 20)).size(), 10u);
  for (const auto& entry : fs::directory_iterator(folder_)) {
    EXPECT_NE(entry.path().extension(), ".tmp");
  }
}

TEST_F(Checkpoint, Full_HoldsTheReplicasWhichAreTheWeights) {
  Options options = Run(Mode::kSync, 10);
  Losses(options);
  const auto update = fs::file_size(folder_ + "/step-000000000010.state");
  fs::remove_all(folder_);
  options.checkpoint.full = true;
  const auto expected = Losses(Plain(options, 20));
  EXPECT_EQ(Together(options, Resumed(options, 20)), expected);
  const auto found = StateFolder(folder_, FactsOf(options, &Text())).LoadNewest();
  const auto& arrays = std::get<StateFolder::Loaded>(found).state.arrays;
  EXPECT_EQ(arrays.at("replica/0"), arrays.at("master_weights"));
  EXPECT_EQ(arrays.at("replica/1"), arrays.at("master_weights"));
  const auto full = fs::file_size(folder_ + "/step-000000000010.state");
  EXPECT_EQ(full * 3, update * 5);  // 3 arrays of the update pool, 2 replicas
}

TEST_F(Checkpoint, WithNothingComputed_GoesOnAtItsStep) {
  for (const Mode mode : {Mode::kSync, Mode::kAsync}) {
    Options options = Run(mode, 12);
    options.devices.compute.kind = options.devices.update.kind = DeviceKind::kEmulated;
    options.math = false;
    options.forward_seconds = options.backward_seconds = options.update_seconds = 0.0005;
    EXPECT_EQ(Together(options, Resumed(options, 20)).size(), 20u);
    fs::remove_all(folder_);
  }
}

}  // namespace
}  // namespace poolscope::trainer
