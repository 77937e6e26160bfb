#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "store/store.h"
#include "tests/store/scratch.h"

namespace poolscope {
namespace {

using ::poolscope::testing::AllEvents;
using ::poolscope::testing::MakeTrack;
using ::poolscope::testing::Opened;
using ::poolscope::testing::Ranges;
using ::poolscope::testing::Scratch;

constexpr int64_t kBatch = 700;  // so that chunks end anywhere in a batch

// Commits batches for ever, events and cursor together, and tells the parent of each.
[[noreturn]] void CommitForEver(const std::filesystem::path& path, int told) {
  auto store = Store::Open(path, Store::Mode::kWrite);
  if (!store.ok()) _exit(1);
  const int64_t track = MakeTrack(*store);
  const auto cursors = store->Cursors("session");
  int64_t done = cursors->empty() ? 0 : cursors->front().read_position;
  while (true) {
    if (!store->Begin().ok() || !store->Append(track, Ranges(kBatch, done * 1000)).ok()) _exit(1);
    done += kBatch;
    if (!store->Put(CursorRow{"session", 0, 1, done}).ok() || !store->Commit().ok()) _exit(1);
    if (write(told, &done, sizeof(done)) != sizeof(done)) _exit(1);
  }
}

TEST(StoreKill, KilledAtAnyInstant_WhatWasCommittedIsThereOnce) {
  Scratch scratch;
  std::mt19937 random(20);
  int64_t told = 0;
  for (int round = 0; round < 20; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      CommitForEver(scratch / "run.db", ends[1]);
    }
    close(ends[1]);
    std::thread killer([&, pause = std::chrono::microseconds(5000 + random() % 60000)] {
      std::this_thread::sleep_for(pause);
      kill(child, SIGKILL);
    });
    for (int64_t done; read(ends[0], &done, sizeof(done)) == sizeof(done);) told = done;
    killer.join();
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer failed by itself";

    if (!std::filesystem::exists(scratch / "run.db")) continue;
    const auto store = Store::Open(scratch / "run.db", Store::Mode::kRead);
    if (!store.ok()) {  // killed while it made the store
      ASSERT_EQ(told, 0) << store.error().message;
      continue;
    }
    const auto cursors = store->Cursors("session");
    ASSERT_TRUE(cursors.ok());
    const int64_t stored = cursors->empty() ? 0 : cursors->front().read_position;
    EXPECT_GE(stored, told);
    EXPECT_LE(stored, told + kBatch);  // a commit of which it could not tell any more
    ASSERT_EQ(AllEvents(*store), Ranges(static_cast<size_t>(stored), 0).events) << round;
  }
  EXPECT_GT(told, 0);
}

}  // namespace
}  // namespace poolscope
