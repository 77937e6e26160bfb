#include "reference-trainer/data_loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <stdexcept>
#include <thread>

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
