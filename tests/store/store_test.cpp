#include "store/store.h"

#include <gtest/gtest.h>

#include "tests/store/scratch.h"

namespace poolscope {
namespace {

using ::poolscope::testing::Opened;
using ::poolscope::testing::Ranges;
using ::poolscope::testing::Scratch;

TEST(Store, EventsAndRows_SurviveReopening) {
  Scratch scratch;
  const auto path = scratch / "run.db";
  EventBatch batch = Ranges(20000, 1000);
  {
    Store store = Opened(path, Store::Mode::kWrite);
    ASSERT_TRUE(store.Begin().ok());
    ASSERT_TRUE(store.Put(RunRow{"ab01", "host", "train", 5, 9, true}).ok());
    ASSERT_TRUE(store.Put(ProcessRow{"55", "ab01", "host", "train", 12, 1, 5, 9, "exited"}).ok());
    const auto thread = store.PutThread({0, "55", 12, "main", "compute", 3});
    ASSERT_TRUE(thread.ok()) << thread.error().message;
    const auto track = store.TrackId({0, "ab01", *thread, 1, 0});
    ASSERT_TRUE(track.ok());
    EXPECT_EQ(*store.TrackId({0, "ab01", *thread, 1, 0}), *track);
    EXPECT_EQ(*store.PutThread({0, "55", 12, "renamed", "compute", 3}), *thread);
    ASSERT_TRUE(store.Append(*track, batch).ok());
    ASSERT_TRUE(store.Commit().ok());
  }
  Store store = Opened(path, Store::Mode::kRead);
  const auto run = store.FindRun("");
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->run_id, "ab01");
  EXPECT_EQ(run->command, "train");
  EXPECT_TRUE(run->ended);
  const auto threads = store.Threads("ab01");
  ASSERT_TRUE(threads.ok());
  ASSERT_EQ(threads->size(), 1u);
  EXPECT_EQ((*threads)[0].name, "renamed");
  EXPECT_EQ((*threads)[0].worker_index, 3);
  const auto tracks = store.Tracks("ab01");
  ASSERT_TRUE(tracks.ok());
  ASSERT_EQ(tracks->size(), 1u);
  const auto chunks = store.Chunks((*tracks)[0].track_id, {});
  ASSERT_TRUE(chunks.ok());
  ASSERT_EQ(chunks->size(), 3u);
  EXPECT_EQ((*chunks)[2].events, 20000 - 2 * 8192);
  std::vector<Event> seen;
  ASSERT_TRUE(store
                  .ReadEvents("ab01", {},
                              [&](const TrackRow&, const EventBatch& part) {
                                seen.insert(seen.end(), part.events.begin(), part.events.end());
                                return true;
                              })
                  .ok());
  EXPECT_EQ(seen, batch.events);
}

}  // namespace
}  // namespace poolscope
