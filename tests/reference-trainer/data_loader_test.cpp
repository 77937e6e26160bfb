#include "reference-trainer/data_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <stdexcept>
#include <thread>

#include "reference-trainer/log.h"
#include "reference-trainer/timing.h"
#include "tests/reference-trainer/parse_options.h"
#include "tests/reference-trainer/training.h"

namespace poolscope::trainer {
namespace {

// A loader that notes what it reads; micro-batch i is the one token i.
class Loader : public ::testing::Test {
 protected:
  void Open(uint64_t workers, uint64_t prefetch) {
    loader_ = std::make_unique<DataLoader>(InputOptions{0, workers, prefetch}, [this](uint64_t i) {
      std::lock_guard lock(mutex_);
      read_.push_back(i);
      return std::make_shared<const Batch>(Batch{{static_cast<uint8_t>(i)}, {}});
    });
  }
  uint8_t Get(uint64_t index) {
    return loader_
        ->Get(
            index, signal_, [] {}, waited_)
        ->tokens[0];
  }
  std::vector<uint64_t> ReadSoFar() {
    std::lock_guard lock(mutex_);
    return read_;
  }
  // Once nothing more is read; the bound on it is what is tested.
  std::vector<uint64_t> Settled(size_t expected) {
    for (int i = 0; i < 2000 && ReadSoFar().size() < expected; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return ReadSoFar();
  }

  Signal signal_;
  bool waited_ = false;
  std::mutex mutex_;
  std::vector<uint64_t> read_;  // guarded by mutex_
  std::unique_ptr<DataLoader> loader_;
};

TEST_F(Loader, WithThreads_KeepsNoMoreReadyThanItsPrefetch) {
  Open(2, 3);
  EXPECT_EQ(Settled(3).size(), 3u);
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(Get(i), i);
    EXPECT_LE(ReadSoFar().size(), i + 1 + 3);
  }
  EXPECT_EQ(Settled(13).size(), 13u);
}

TEST_F(Loader, WhatIsPrepared_IsNotWaitedFor) {
  Open(1, 2);
  Settled(2);
  waited_ = false;
  Get(1);
  EXPECT_FALSE(waited_);
}

TEST_F(Loader, WithoutThreads_ReadsWhatIsAskedForAndNothingElse) {
  Open(0, 2);
  EXPECT_EQ(Get(4), 4);
  EXPECT_EQ(Get(2), 2);
  EXPECT_EQ(ReadSoFar(), (std::vector<uint64_t>{4, 2}));
  EXPECT_TRUE(waited_);
}

TEST_F(Loader, AskedForOutOfOrderOrAgain_IsReadBesideAFullPrefetch) {
  Open(1, 2);
  Settled(2);  // 0 and 1 are ready and nobody takes them
  for (const uint64_t index : {3, 2, 5, 3, 0, 0, 4, 1}) EXPECT_EQ(Get(index), index);
  std::vector<uint64_t> read = Settled(10);
  std::sort(read.begin(), read.end());
  EXPECT_EQ(read, (std::vector<uint64_t>{0, 0, 1, 2, 3, 3, 4, 5, 6, 7})) << "each once, or again";
}

TEST_F(Loader, FirstAskedFarAhead_GoesOnFromThere) {
  Open(1, 2);
  EXPECT_EQ(Get(100), 100);
  for (const uint64_t index : Settled(3)) EXPECT_TRUE(index < 2 || index >= 100) << index;
  EXPECT_EQ(Get(101), 101);
}

TEST_F(Loader, BySlices_IsPreparedAheadAndNotWaitedFor) {
  std::vector<uint64_t> read;
  DataLoader loader(InputOptions{0.010, 0, 2}, [&](uint64_t i) {
    read.push_back(i);
    return std::make_shared<const Batch>(Batch{{static_cast<uint8_t>(i)}, {}});
  });
  const auto get = [&](uint64_t index) {
    waited_ = false;
    return loader
        .Get(
            index, signal_, [] {}, waited_)
        ->tokens[0];
  };
  std::vector<double> slices;
  const auto slice = [&] {
    return loader.PrepareSlice(0.004, [&](double seconds, const auto& math) {
      slices.push_back(seconds);
      math();
    });
  };
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(slice());
  EXPECT_TRUE(read.empty()) << "8 of 10 ms are done";
  while (slice()) {
  }
  EXPECT_EQ(read, (std::vector<uint64_t>{0, 1})) << "as many as are to be ready";
  ASSERT_EQ(slices.size(), 6u);
  for (size_t i = 0; i < slices.size(); ++i)
    EXPECT_NEAR(slices[i], i % 3 == 2 ? 0.002 : 0.004, 1e-9);
  for (const uint64_t index : {1, 0}) {
    EXPECT_EQ(get(index), index);
    EXPECT_FALSE(waited_);
  }
  // One that was begun is finished by who needs it, and not read twice.
  EXPECT_TRUE(slice());
  const int64_t begin = NowNs();
  EXPECT_EQ(get(2), 2);
  EXPECT_TRUE(waited_);
  EXPECT_GE(NowNs() - begin, 6'000'000);
  EXPECT_EQ(read, (std::vector<uint64_t>{0, 1, 2}));
  loader.GoTo(7);
  while (slice()) {
  }
  EXPECT_EQ(read, (std::vector<uint64_t>{0, 1, 2, 7, 8}));
}

TEST_F(Loader, WithThreadsThatGoElsewhere_PreparesWhatIsAskedForThere) {
  Open(2, 3);
  Settled(3);
  loader_->GoTo(50);
  EXPECT_THAT(Settled(6), testing::IsSupersetOf({50, 51, 52}));
  waited_ = false;
  EXPECT_EQ(Get(50), 50);
  EXPECT_FALSE(waited_);
}

TEST_F(Loader, AWaitingWorker_WakesWhenTheRunHasFailed) {
  std::latch go(1);
  DataLoader loader(InputOptions{0, 1, 1}, [&](uint64_t) {
    go.wait();  // storage that hangs
    return nullptr;
  });
  std::atomic<bool> failed = false;
  std::thread failing([&] {
    failed = true;
    signal_.Notify();
  });
  const auto check = [&] {
    if (failed) throw std::runtime_error("failed");
  };
  EXPECT_THROW(loader.Get(0, signal_, check, waited_), std::runtime_error);
  failing.join();
  go.count_down();
}

TEST(DataLoading, HoweverItIsDone_TheLossIsTheSameAtEveryStep) {
  Options plain = Small(Mode::kSync);
  plain.steps = 15;
  plain.compute_workers = 3;
  const auto expected = TrainAll(plain);
  for (const Mode mode : {Mode::kSync, Mode::kMonolithic}) {
    for (const InputOptions input : {InputOptions{0.0005, 0, 2}, {0.0005, 3, 1}, {0, 2, 20}}) {
      Options options = plain;
      options.mode = mode;
      options.input = input;
      const auto records = TrainAll(options);
      for (size_t i = 0; i < records.size(); ++i) {
        ASSERT_NEAR(records[i].loss, expected[i].loss, 1e-5 * expected[i].loss) << i;
      }
    }
  }
}

TEST(SideWork, OfEitherPoolAndKind_ChangesNoLoss) {
  Options plain = Small(Mode::kSync);
  plain.steps = 15;
  const auto expected = TrainAll(plain);
  for (const PoolRole pool : {PoolRole::kCompute, PoolRole::kUpdate}) {
    for (const auto kind :
         {SideWorkOptions::Kind::kSynthetic, SideWorkOptions::Kind::kDataPreparation}) {
      Options options = plain;
      options.input = {0.0005, 0, 4};
      options.side_work = {kind, pool, 0.0002};
      RunTotals totals;
      const auto records = TrainAll(options, Text(), &totals);
      for (size_t i = 0; i < records.size(); ++i) {
        ASSERT_EQ(records[i].loss, expected[i].loss) << i;
      }
      EXPECT_GT(totals.side_work_slices, 0u);
    }
  }
}

// The update pool is idle for 20 ms of a step, 10 of which its compute workers wait for data.
TEST(SideWork, ThatPreparesData_MakesTheStepsShorter) {
  for (const Mode mode : {Mode::kSync, Mode::kAsync}) {
    Options options = Emulated(mode);
    options.compute_workers = 2;
    options.steps = 20;
    options.forward_seconds = options.backward_seconds = 0.005;
    options.input = {0.005, 0, 4};
    const auto median = [&] {
      const auto records = TrainAll(options);
      return *Summarize(records).step_seconds_median;
    };
    const double alone = median();
    options.side_work = {SideWorkOptions::Kind::kDataPreparation, PoolRole::kUpdate, 0.001};
    EXPECT_LT(median(), 0.87 * alone) << ModeName(mode);
  }
}

TEST(SideWork, ThatCannotBe_IsRefusedInOneLine) {
  const std::pair<const char*, const char*> refused[] = {
      {"--side-work-ms 2", "needs --side-work"},
      {"--side-work synthetic --mode monolithic", "--mode disaggregated"},
      {"--side-work data-preparation", "needs --data-delay-ms"},
      {"--side-work data-preparation --data-delay-ms 2 --data-workers 1", "no --data-workers"},
      {"--side-work data-preparation --data-delay-ms 2 --transport mpi", "--transport inprocess"},
  };
  for (const auto& [line, why] : refused) EXPECT_THAT(Error(line), testing::HasSubstr(why));
}

TEST(DataLoading, ALoaderThatIsSlow_BoundsTheStepTime) {
  // 4 micro-batches of 6 ms by two threads are 12 ms a step, whatever computes.
  for (const Mode mode : {Mode::kSync, Mode::kAsync}) {
    Options options = Emulated(mode);
    options.steps = 11;
    options.input = {0.006, 2, 4};
    const auto records = TrainAll(options);
    EXPECT_GE(records.back().end_ns - records.front().end_ns, 7 * 12'000'000);  // some were ready
  }
}

}  // namespace
}  // namespace poolscope::trainer
