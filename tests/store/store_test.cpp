#include "store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <bit>
#include <cmath>

#include "tests/store/scratch.h"

namespace poolscope {
namespace {

using ::poolscope::testing::AllEvents;
using ::poolscope::testing::MakeTrack;
using ::poolscope::testing::Opened;
using ::poolscope::testing::Ranges;
using ::poolscope::testing::Scratch;
using ::testing::ElementsAre;

constexpr auto kRead = Store::Mode::kRead;
constexpr auto kWrite = Store::Mode::kWrite;

void Commit(Store& store, int64_t track, const EventBatch& batch) {
  ASSERT_OK(store.Begin());
  ASSERT_OK(store.Append(track, batch));
  ASSERT_OK(store.Commit());
}

std::vector<int64_t> ChunkSizes(const Store& store, int64_t track) {
  std::vector<int64_t> sizes;
  const auto chunks = store.Chunks(track, {});
  for (const ChunkRow& chunk : chunks.value()) sizes.push_back(chunk.events);
  return sizes;
}

// --- Events ---

TEST(Store, Events_SurviveReopening) {
  Scratch scratch;
  const EventBatch batch = Ranges(20000, 1000);
  {
    Store store = Opened(scratch / "run.db", kWrite);
    const int64_t track = MakeTrack(store);
    EXPECT_EQ(MakeTrack(store), track);
    Commit(store, track, batch);
  }
  Store store = Opened(scratch / "run.db", kRead);
  EXPECT_THAT(ChunkSizes(store, 1), ElementsAre(8192, 8192, 3616));
  EXPECT_EQ(AllEvents(store), batch.events);
}

TEST(Store, UnfinishedChunk_IsRewrittenAndTakenUpAgain) {
  Scratch scratch;
  int64_t track;
  {
    Store store = Opened(scratch / "run.db", kWrite);
    track = MakeTrack(store);
    Commit(store, track, Ranges(100, 0));
    Commit(store, track, Ranges(100, 100'000));
    EXPECT_THAT(ChunkSizes(store, track), ElementsAre(200));
  }
  Store store = Opened(scratch / "run.db", kWrite);
  Commit(store, track, Ranges(8000, 200'000));
  EXPECT_THAT(ChunkSizes(store, track), ElementsAre(8192, 8));
  Commit(store, track, Ranges(8184, 8'200'000));
  EXPECT_THAT(ChunkSizes(store, track), ElementsAre(8192, 8192));
  Commit(store, track, Ranges(1, 16'384'000));
  EXPECT_THAT(ChunkSizes(store, track), ElementsAre(8192, 8192, 1));
  EXPECT_EQ(AllEvents(store), Ranges(16385, 0).events);
}

TEST(Store, SlowTrack_GetsSmallerChunksNotEndlessRewriting) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", kWrite);
  const int64_t track = MakeTrack(store);
  for (int64_t i = 0; i < 40; ++i) Commit(store, track, Ranges(100, i * 100'000));
  EXPECT_THAT(ChunkSizes(store, track), ElementsAre(1600, 1600, 800));
  EXPECT_EQ(AllEvents(store), Ranges(4000, 0).events);
}

TEST(Store, PayloadsAcrossChunks_StayWithTheirEvents) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", kWrite);
  const int64_t track = MakeTrack(store);
  EventBatch batch = Ranges(9000, 0);
  for (size_t i = 0; i < batch.events.size(); i += 3) {
    batch.events[i].payload_offset = static_cast<uint32_t>(batch.words.size());
    batch.events[i].payload_words = 3;
    batch.words.insert(batch.words.end(), {9 | uint64_t{2} << 32, i, i * i});
  }
  Commit(store, track, batch);
  size_t seen = 0;
  ASSERT_OK(store.ReadEvents("run", {}, [&](const TrackRow&, const EventBatch& part) {
    for (const Event& event : part.events) {
      const auto values = part.Payload(event, 9);
      if (seen % 3 == 0) {
        EXPECT_THAT(std::vector<uint64_t>(values.begin(), values.end()),
                    ElementsAre(seen, seen * seen));
      } else {
        EXPECT_TRUE(values.empty());
      }
      ++seen;
    }
    return true;
  }));
  EXPECT_EQ(seen, 9000u);
}

TEST(Store, ReadEvents_GivesWhatOverlapsTheSpan) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", kWrite);
  Commit(store, MakeTrack(store), Ranges(20000, 0));
  const auto starts = [&](Store::Span span) {
    std::vector<int64_t> found;
    EXPECT_TRUE(store
                    .ReadEvents("run", span,
                                [&](const TrackRow&, const EventBatch& part) {
                                  for (const Event& event : part.events)
                                    found.push_back(event.start_ns);
                                  return true;
                                })
                    .ok());
    return found;
  };
  EXPECT_THAT(starts({1500, 3000}), ElementsAre(1000, 2000, 3000));
  EXPECT_THAT(starts({1600, 2999}), ElementsAre(2000));  // the one before ends at 1600
  EXPECT_THAT(starts({8'191'700, 8'192'000}), ElementsAre(8'192'000));
  EXPECT_THAT(starts({30'000'000, 40'000'000}), ElementsAre());
  int calls = 0;
  ASSERT_OK(store.ReadEvents("run", {}, [&](const auto&, const auto&) { return ++calls < 2; }));
  EXPECT_EQ(calls, 2);
}

TEST(Store, Rollback_LeavesEverythingAsBeforeBegin) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", kWrite);
  const int64_t track = MakeTrack(store);
  Commit(store, track, Ranges(100, 0));
  ASSERT_OK(store.Begin());
  ASSERT_OK(store.Append(track, Ranges(9000, 500'000)));
  const uint32_t id = *store.Intern("undone");
  ASSERT_OK(store.Put(SettingRow{"run", "key", "value"}));
  store.Rollback();
  EXPECT_EQ(*store.FindString("undone"), 0u);
  EXPECT_FALSE(store.String(id).ok());
  EXPECT_TRUE(store.Settings("run")->empty());
  Commit(store, track, Ranges(1, 100'000));
  EXPECT_THAT(ChunkSizes(store, track), ElementsAre(101));
  EXPECT_EQ(AllEvents(store), Ranges(101, 0).events);
  EXPECT_EQ(*store.String(*store.Intern("other")), "other");
}

TEST(Store, StoreClosedInATransaction_KeepsNothingOfIt) {
  Scratch scratch;
  {
    Store store = Opened(scratch / "run.db", kWrite);
    const int64_t track = MakeTrack(store);
    ASSERT_OK(store.Begin());
    ASSERT_OK(store.Append(track, Ranges(9000, 0)));
  }
  EXPECT_TRUE(AllEvents(Opened(scratch / "run.db", kRead)).empty());
}

TEST(Store, AfterAnError_NothingOfTheTransactionIsKept) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", kWrite);
  const int64_t track = MakeTrack(store);
  EventBatch broken = Ranges(1, 0);
  broken.events[0].payload_words = 4;
  ASSERT_OK(store.Begin());
  ASSERT_OK(store.Append(track, Ranges(10, 0)));
  EXPECT_FALSE(store.Append(track, broken).ok());
  EXPECT_FALSE(store.Put(SettingRow{"run", "key", "value"}).ok());
  EXPECT_FALSE(store.Commit().ok());
  EXPECT_TRUE(AllEvents(store).empty());
  Commit(store, track, Ranges(3, 0));
  EXPECT_EQ(AllEvents(store).size(), 3u);
}

TEST(Store, AppendOutsideATransaction_IsRefused) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", kWrite);
  const int64_t track = MakeTrack(store);
  EXPECT_FALSE(store.Append(track, Ranges(1, 0)).ok());
  EXPECT_FALSE(store.Commit().ok());
  ASSERT_OK(store.Begin());
  EXPECT_FALSE(store.Begin().ok());
}

TEST(Store, ChunkNames_AreSummedOverChunks) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", kWrite);
  const int64_t track = MakeTrack(store);
  Commit(store, track, Ranges(10000, 0, 1));
  Commit(store, track, Ranges(5, 20'000'000, 2));
  const auto names = store.ChunkNames(track, {});
  ASSERT_EQ(names->size(), 2u);
  EXPECT_EQ((*names)[0].name, 1u);
  EXPECT_EQ((*names)[0].events, 10000);
  EXPECT_EQ((*names)[0].total_ns, 10000 * 600);
  EXPECT_EQ((*names)[1].events, 5);
}

TEST(Store, DropEventsBefore_LeavesNewerEventsAndAllWindows) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", kWrite);
  const int64_t track = MakeTrack(store);
  ASSERT_OK(store.Put(PoolWindowRow{"run", "compute", 0, 10}));
  Commit(store, track, Ranges(20000, 0));
  ASSERT_OK(store.Begin());
  const auto dropped = store.DropEventsBefore("run", 10'000'000);
  ASSERT_OK(store.Commit());
  EXPECT_EQ(*dropped, 8192);
  EXPECT_EQ(AllEvents(store), Ranges(20000 - 8192, 8'192'000).events);
  ASSERT_OK(store.DropEventsBefore("run", INT64_MAX));
  Commit(store, track, Ranges(1, 20'000'000));  // the unfinished chunk goes on
  EXPECT_EQ(AllEvents(store), Ranges(20001 - 16384, 16'384'000).events);
  EXPECT_EQ(store.PoolWindows("run", {})->size(), 1u);
}

TEST(Store, CounterChunk_KnowsItsLimits) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", kWrite);
  const int64_t track = MakeTrack(store, 3);
  EventBatch batch;
  for (double value : {3.5, -2.0, std::nan(""), 7.25}) {
    Event event;
    event.kind = EventKind::kCounter;
    event.flags = kEventFloat;
    event.value = std::bit_cast<uint64_t>(value);
    batch.events.push_back(event);
  }
  Commit(store, track, batch);
  const ChunkRow chunk = store.Chunks(track, {})->front();
  EXPECT_EQ(chunk.min_value, -2.0);
  EXPECT_EQ(chunk.max_value, 7.25);
  EXPECT_TRUE(store.ChunkSummary(track, 0)->empty());
}

TEST(Store, DamagedChunk_IsNamedAndWritingGoesOnAfterIt) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", kWrite);
  const int64_t track = MakeTrack(store);
  Commit(store, track, Ranges(10, 0));
  auto* db = static_cast<sqlite3*>(store.sqlite());
  ASSERT_EQ(sqlite3_exec(db, "UPDATE chunk_data SET data = x'0102'", nullptr, nullptr, nullptr),
            SQLITE_OK);
  const auto batch = store.ReadChunk(track, 0);
  ASSERT_FALSE(batch.ok());
  EXPECT_THAT(batch.error().message, ::testing::HasSubstr("chunk 0 of track 1"));
  Store again = Opened(scratch / "run.db", kWrite);
  Commit(again, track, Ranges(5, 20'000));
  EXPECT_THAT(ChunkSizes(again, track), ElementsAre(10, 5));
}

// --- Several at once ---

TEST(Store, TwoReaders_SeeWholeCommitsOfTheWriter) {
  Scratch scratch;
  Store writer = Opened(scratch / "run.db", kWrite);
  const int64_t first = MakeTrack(writer), second = MakeTrack(writer, 2);
  Store readers[] = {Opened(scratch / "run.db", kRead), Opened(scratch / "run.db", kRead)};
  int64_t version = readers[0].DataVersion();
  for (int64_t i = 1; i <= 30; ++i) {
    ASSERT_OK(writer.Begin());
    ASSERT_OK(writer.Append(first, Ranges(1000, i * 1'000'000)));
    for (const Store& reader : readers) EXPECT_EQ(AllEvents(reader).size(), (i - 1) * 2000u);
    ASSERT_OK(writer.Append(second, Ranges(1000, i * 1'000'000)));
    ASSERT_OK(writer.Commit());
    for (const Store& reader : readers) EXPECT_EQ(AllEvents(reader).size(), i * 2000u);
    EXPECT_GT(readers[0].DataVersion(), version);
    version = readers[0].DataVersion();
    EXPECT_EQ(readers[0].DataVersion(), version);
  }
}

TEST(Store, ReaderThatCameFirst_FollowsAWriterThatComesLater) {
  Scratch scratch;
  {
    Store store = Opened(scratch / "run.db", kWrite);
    Commit(store, MakeTrack(store), Ranges(10, 0));
  }
  Store reader = Opened(scratch / "run.db", kRead);
  EXPECT_EQ(AllEvents(reader).size(), 10u);
  const int64_t version = reader.DataVersion();
  Store writer = Opened(scratch / "run.db", kWrite);
  Commit(writer, 1, Ranges(20, 10'000));
  EXPECT_GT(reader.DataVersion(), version);
  EXPECT_EQ(AllEvents(reader).size(), 30u);
}

TEST(Store, ReaderThatCameFirst_SeesWhatAWriterDidThatHasGone) {
  Scratch scratch;
  {
    Store store = Opened(scratch / "run.db", kWrite);
    Commit(store, MakeTrack(store), Ranges(10, 0));
  }
  const Store reader = Opened(scratch / "run.db", kRead);
  EXPECT_EQ(AllEvents(reader).size(), 10u);
  const int64_t version = reader.DataVersion();
  {
    Store writer = Opened(scratch / "run.db", kWrite);
    Commit(writer, 1, Ranges(20, 10'000));
  }
  EXPECT_GT(reader.DataVersion(), version);
  EXPECT_EQ(AllEvents(reader).size(), 30u);
}

TEST(Store, TwoWritersInTurn_DoNotUndoEachOther) {
  Scratch scratch;
  Store one = Opened(scratch / "run.db", kWrite);
  Store other = Opened(scratch / "run.db", kWrite);
  const int64_t track = MakeTrack(one);
  for (int64_t i = 0; i < 10; ++i) {
    Commit(i % 2 ? one : other, track, Ranges(1000, i * 1'000'000));
  }
  EXPECT_EQ(AllEvents(one), Ranges(10000, 0).events);
}

TEST(Store, ReadEvents_IsOfOneStateWhateverTheWriterDoes) {
  Scratch scratch;
  Store writer = Opened(scratch / "run.db", kWrite);
  const int64_t track = MakeTrack(writer);
  Commit(writer, track, Ranges(20000, 0));
  const Store reader = Opened(scratch / "run.db", kRead);
  size_t seen = 0;
  ASSERT_OK(reader.ReadEvents("run", {}, [&](const TrackRow&, const EventBatch& batch) {
    if (seen == 0) {
      EXPECT_TRUE(writer.DropEventsBefore("run", INT64_MAX).ok());
      Commit(writer, track, Ranges(1000, 20'000'000));
    }
    seen += batch.events.size();
    return true;
  }));
  EXPECT_EQ(seen, 20000u);
  EXPECT_EQ(AllEvents(reader), Ranges(21000 - 16384, 16'384'000).events);
}

TEST(Store, OwnCommits_AreSeenInTheDataVersion) {
  Scratch scratch;
  Store store = Opened(scratch / "run.db", kWrite);
  const int64_t track = MakeTrack(store);
  const int64_t version = store.DataVersion();
  Commit(store, track, Ranges(1, 0));
  EXPECT_GT(store.DataVersion(), version);
}

}  // namespace
}  // namespace poolscope
