#include "viewer/model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

namespace poolscope {
namespace {

constexpr int64_t kStart = 1'760'000'000'000'000'000;
constexpr int64_t kPeriod = 100'000;  // one range each 100 us
constexpr const char* kRun = "0123456789abcdef0123456789abcdef";

// A worker with a work range of 60 us and a wait of 40 us in turn, and a link with its counter.
class StoreWithARun : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("poolscope-viewer-test-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "run.db";
    Result<Store> store = Store::Open(path_, Store::Mode::kWrite);
    ASSERT_TRUE(store.ok()) << store.error().message;
    writer_.emplace(std::move(*store));
    ASSERT_TRUE(writer_->Begin().ok());
    RunRow run{kRun, "host", "job", kStart, kStart, false};
    ASSERT_TRUE(writer_->Put(run).ok());
    ASSERT_TRUE(writer_->Put(ProcessRow{"5e55", kRun, "host", "job", 1, 0, kStart}).ok());
    ASSERT_TRUE(writer_->Put(PoolRow{kRun, "compute", "compute", 1}).ok());
    ASSERT_TRUE(writer_->Put(PoolRow{kRun, "update", "update", 1}).ok());
    ASSERT_TRUE(writer_->Put(WorkerRow{kRun, "compute", 0, "5e55", "cpu"}).ok());
    ASSERT_TRUE(writer_->Put(LinkRow{kRun, "gradients", "compute", "update", 4, 1}).ok());
    Result<int64_t> thread = writer_->PutThread({0, "5e55", 7, "worker", "compute", 0});
    ASSERT_TRUE(thread.ok());
    Result<int64_t> track = writer_->TrackId({0, kRun, *thread, 1, 0});
    ASSERT_TRUE(track.ok());
    track_ = *track;
    forward_ = *writer_->Intern("forward");
    weights_ = *writer_->Intern("gradients");
    domain_ = *writer_->Intern("poolscope");
    schema_ = *writer_->Intern(kTransferSchema);
    ASSERT_TRUE(writer_->Commit().ok());
  }
  void TearDown() override {
    writer_.reset();
    std::filesystem::remove_all(folder_);
  }

  // `pairs` more of work and wait; the run's newest time grows with them.
  void Grow(int64_t pairs, bool ended = true) {
    ASSERT_TRUE(writer_->Begin().ok());
    EventBatch batch;
    for (int64_t i = 0; i < pairs; ++i, ++made_) {
      Event work;
      work.start_ns = kStart + made_ * kPeriod;
      work.duration_ns = 60'000;
      work.name = forward_;
      work.domain = domain_;
      work.category = static_cast<uint32_t>(Category::kWork);
      Event wait = work;
      wait.start_ns += 60'000;
      wait.duration_ns = 40'000;
      wait.name = weights_;
      wait.category = static_cast<uint32_t>(Category::kWaitLink);
      batch.events.push_back(work);
      batch.events.push_back(wait);
    }
    ASSERT_TRUE(writer_->Append(track_, batch).ok());
    ASSERT_TRUE(
        writer_->Put(RunRow{kRun, "host", "job", kStart, kStart + made_ * kPeriod, ended}).ok());
    ASSERT_TRUE(writer_->Commit().ok());
  }

  Store Reader() {
    Result<Store> store = Store::Open(path_, Store::Mode::kRead);
    EXPECT_TRUE(store.ok());
    return std::move(*store);
  }

  std::filesystem::path folder_, path_;
  std::optional<Store> writer_;
  int64_t track_ = 0, made_ = 0;
  uint32_t forward_ = 0, weights_ = 0, domain_ = 0, schema_ = 0;
};

const Lane& LaneOf(const Catalog& catalog, LaneKind kind) {
  for (const Lane& lane : catalog.lanes) {
    if (lane.kind == kind) return lane;
  }
  ADD_FAILURE() << "no such lane";
  return catalog.lanes.front();
}

int LaneIndex(const Catalog& catalog, LaneKind kind) {
  return static_cast<int>(&LaneOf(catalog, kind) - catalog.lanes.data());
}

TEST_F(StoreWithARun, PictureReadsOnlyTheChunksInSight) {
  Grow(100'000);  // 200 000 events: 25 chunks of 0.41 s
  const Store store = Reader();
  ChunkCache cache(size_t{64} << 20);
  const auto catalog = *ReadCatalog(store, kRun, nullptr);
  PictureMaker maker(store, cache, *catalog);
  PictureMaker::Order order;
  order.begin_ns = kStart + 5 * kPeriod * 10'000;
  order.end_ns = order.begin_ns + 1'000'000;  // 1 ms: within one chunk, or over one edge
  order.column_ns = 512;
  const auto picture = *maker.Make(*catalog, LaneOf(*catalog, LaneKind::kRanges), order);
  EXPECT_LE(cache.chunks_read(), 2u);
  // 10 periods and what touches the edges: all drawn one by one.
  EXPECT_GE(picture->bars.size(), 20u);
  EXPECT_LE(picture->bars.size(), 23u);
  for (const Bar& bar : picture->bars) EXPECT_EQ(bar.events, 1u);
}

TEST_F(StoreWithARun, PictureIsBoundedByItsColumnsWhateverTheEvents) {
  Grow(100'000);
  const Store store = Reader();
  ChunkCache cache(size_t{64} << 20);
  const auto catalog = *ReadCatalog(store, kRun, nullptr);
  PictureMaker maker(store, cache, *catalog);
  PictureMaker::Order order;
  order.begin_ns = kStart;
  order.end_ns = kStart + 100'000 * kPeriod;
  order.column_ns = (order.end_ns - order.begin_ns) / 1000;
  for (const LaneKind kind : {LaneKind::kRanges, LaneKind::kStates}) {
    const auto picture = *maker.Make(*catalog, LaneOf(*catalog, kind), order);
    EXPECT_LE(picture->bars.size(), 2002u);
    EXPECT_LE(picture->states.size(), 2002u);
    EXPECT_GT(picture->bars.size() + picture->states.size(), 0u);
  }
}

TEST_F(StoreWithARun, StatesOfAPictureAgreeWithTheEvents) {
  Grow(1000);
  const Store store = Reader();
  ChunkCache cache(size_t{64} << 20);
  const auto catalog = *ReadCatalog(store, kRun, nullptr);
  PictureMaker maker(store, cache, *catalog);
  PictureMaker::Order order;
  order.begin_ns = kStart;
  order.end_ns = kStart + 1000 * kPeriod;
  order.column_ns = 1 << 20;
  const auto picture = *maker.Make(*catalog, LaneOf(*catalog, LaneKind::kStates), order);
  double busy = 0;
  double all = 0;
  for (const StateColumn& column : picture->states) {
    const auto length = static_cast<double>(column.end_ns - column.begin_ns);
    busy += length * column.share[static_cast<size_t>(State::kBusy)] / 255;
    all += length;
  }
  EXPECT_NEAR(busy / all, 0.6, 0.01);
  EXPECT_DOUBLE_EQ(all, 1000.0 * kPeriod);
}

TEST_F(StoreWithARun, DiscardedWorkIsNotShownAsPlainBusy) {
  ASSERT_TRUE(writer_->Begin().ok());
  const uint32_t work_schema = *writer_->Intern(kWorkSchema);
  const auto add = [&](EventBatch& batch, Event event, uint32_t schema,
                       std::vector<uint64_t> fields) {
    event.payload_offset = static_cast<uint32_t>(batch.words.size());
    batch.words.push_back(uint64_t{schema} | uint64_t{fields.size()} << 32);
    batch.words.insert(batch.words.end(), fields.begin(), fields.end());
    event.payload_words = static_cast<uint16_t>(fields.size() + 1);
    batch.events.push_back(event);
  };
  EventBatch works;
  for (uint64_t i = 0; i < 4; ++i) {  // micro-batches 0 to 3 of step 7
    Event work;
    work.start_ns = kStart + static_cast<int64_t>(i) * kPeriod;
    work.duration_ns = kPeriod;
    work.name = forward_;
    work.domain = domain_;
    work.category = static_cast<uint32_t>(Category::kWork);
    add(works, work, work_schema, {7, i, 5, kNoValue, kNoValue});
  }
  ASSERT_TRUE(writer_->Append(track_, works).ok());
  Event mark;
  mark.kind = EventKind::kMark;
  mark.start_ns = kStart + 100 * kPeriod;  // long after the span looked at
  mark.name = weights_;
  mark.domain = domain_;
  mark.category = static_cast<uint32_t>(Category::kDiscard);
  std::vector<uint64_t> fields(kTransferFields, kNoValue);
  fields[kTransferSource] = 0;
  fields[kTransferVersion] = 5;
  fields[kTransferStep] = 7;
  fields[kTransferMicroBatch] = 2;
  EventBatch marks;
  add(marks, mark, schema_, fields);
  const int64_t thread = *writer_->PutThread({0, "5e55", 8, "update", "update", 0});
  ASSERT_TRUE(writer_->Append(*writer_->TrackId({0, kRun, thread, 2, 0}), marks).ok());
  ASSERT_TRUE(writer_->Put(RunRow{kRun, "host", "job", kStart, kStart + 200 * kPeriod, true}).ok());
  ASSERT_TRUE(writer_->Commit().ok());
  const Store store = Reader();
  ChunkCache cache(size_t{16} << 20);
  const auto catalog = *ReadCatalog(store, kRun, nullptr);
  PictureMaker maker(store, cache, *catalog);
  const auto picture = *maker.Make(*catalog, LaneOf(*catalog, LaneKind::kStates),
                                   {kStart, kStart + 4 * kPeriod, kPeriod / 10, true, {}});
  ASSERT_EQ(picture->states.size(), 3u);
  EXPECT_EQ(picture->states[0].share[static_cast<size_t>(State::kBusy)], 255);
  EXPECT_EQ(picture->states[1].share[static_cast<size_t>(State::kBusyDiscarded)], 255);
  EXPECT_EQ(picture->states[1].begin_ns, kStart + 2 * kPeriod);
  EXPECT_EQ(picture->states[1].end_ns, kStart + 3 * kPeriod);
  EXPECT_EQ(picture->states[2].share[static_cast<size_t>(State::kBusy)], 255);
}

TEST_F(StoreWithARun, CacheStaysWithinItsBoundAndKeepsTheNewest) {
  Grow(100'000);
  const Store store = Reader();
  const size_t bound = size_t{2} << 20;
  ChunkCache cache(bound);
  const std::vector<ChunkRow> chunks = *store.Chunks(track_, {});
  ASSERT_GT(chunks.size(), 20u);
  for (const ChunkRow& chunk : chunks) {
    ASSERT_TRUE(cache.Read(store, chunk).ok());
    EXPECT_LE(cache.bytes(), bound);
  }
  EXPECT_EQ(cache.chunks_read(), chunks.size());
  EXPECT_TRUE(cache.Holds(chunks.back()));
  EXPECT_FALSE(cache.Holds(chunks.front()));
  ASSERT_TRUE(cache.Read(store, chunks.back()).ok());
  EXPECT_EQ(cache.chunks_read(), chunks.size());
}

TEST_F(StoreWithARun, UnfinishedChunkIsReadAgainWhenItHasGrown) {
  Grow(10);
  const Store store = Reader();
  ChunkCache cache(size_t{2} << 20);
  EXPECT_EQ((*cache.Read(store, store.Chunks(track_, {})->front()))->events.size(), 20u);
  Grow(10);
  EXPECT_EQ((*cache.Read(store, store.Chunks(track_, {})->front()))->events.size(), 40u);
}

TEST_F(StoreWithARun, StatisticsOfASpanEqualACountOfItsEvents) {
  Grow(30'000);
  const Store store = Reader();
  ChunkCache cache(size_t{16} << 20);
  const auto catalog = *ReadCatalog(store, kRun, nullptr);
  const Store::Span span{kStart + 1'234'567'890, kStart + 2'345'678'901};
  int64_t works = 0;
  int64_t waits = 0;
  for (int64_t i = 0; i < 30'000; ++i) {
    const int64_t at = kStart + i * kPeriod;
    if (at + 60'000 >= span.begin_ns && at <= span.end_ns) ++works;
    if (at + 100'000 >= span.begin_ns && at + 60'000 <= span.end_ns) ++waits;
  }
  const auto rows = *CountNames(store, cache, *catalog, span);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "forward");
  EXPECT_EQ(rows[0].events, works);
  EXPECT_EQ(rows[0].total_ns, works * 60'000);
  EXPECT_EQ(rows[1].events, waits);
  EXPECT_LE(cache.chunks_read(), 4u);  // those over an edge; the rest from their totals
}

TEST_F(StoreWithARun, SearchFindsTheNextAndThePreviousOfAName) {
  Grow(20'000);
  const Store store = Reader();
  ChunkCache cache(size_t{16} << 20);
  const auto catalog = *ReadCatalog(store, kRun, nullptr);
  const int64_t middle = kStart + 10'000 * kPeriod + 10;
  const auto next = *FindNext(store, cache, *catalog, "FORW", middle, true);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->begin_ns, kStart + 10'001 * kPeriod);
  const auto before = *FindNext(store, cache, *catalog, "forward", middle, false);
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(before->begin_ns, kStart + 10'000 * kPeriod);
  EXPECT_FALSE(FindNext(store, cache, *catalog, "nowhere", middle, true)->has_value());
}

TEST_F(StoreWithARun, DetailsNameTheEventAndItsPlace) {
  Grow(100);
  const Store store = Reader();
  ChunkCache cache(size_t{16} << 20);
  const auto catalog = *ReadCatalog(store, kRun, nullptr);
  const int lane = LaneIndex(*catalog, LaneKind::kRanges);
  const int64_t begin = kStart + 42 * kPeriod;
  const auto details =
      *FindDetails(store, cache, *catalog, {lane, begin, begin + 60'000, forward_});
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->name, "forward");
  EXPECT_EQ(details->kind, "work");
  EXPECT_EQ(details->place, "worker");  // the thread's name
  ASSERT_FALSE(details->fields.empty());
  EXPECT_EQ(details->fields[0], std::make_pair(std::string("worker"), std::string("compute 0")));
  EXPECT_FALSE(
      FindDetails(store, cache, *catalog, {lane, begin + 1, begin + 2, forward_})->has_value());
}

TEST_F(StoreWithARun, LiveModelGrowsWithTheStoreAndEndsWithTheRun) {
  Grow(1000, false);
  ViewModel::Options options;
  options.poll_ms = 10;
  options.report = false;
  Result<std::unique_ptr<ViewModel>> opened = ViewModel::Open(path_, "", options);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  ViewModel& model = **opened;
  EXPECT_TRUE(model.live());
  ViewRequest request;
  request.begin_ns = kStart;
  request.end_ns = kStart + 5000 * kPeriod;
  request.column_ns = 1 << 20;
  request.lanes = {LaneIndex(*model.answer()->catalog, LaneKind::kRanges)};
  model.Ask(request);
  const auto wait_for = [&](const std::function<bool()>& done) {
    for (int i = 0; i < 2000 && !done(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return done();
  };
  const auto events = [&] {
    const auto picture = model.answer()->lanes[static_cast<size_t>(request.lanes[0])];
    return picture && picture->detail ? picture->events : 0;
  };
  EXPECT_TRUE(wait_for([&] { return events() == 2000; }));
  Grow(1000, false);
  EXPECT_TRUE(wait_for([&] { return events() == 4000; }));
  EXPECT_EQ(model.answer()->catalog->end_ns, kStart + 2000 * kPeriod);
  Grow(1, true);
  EXPECT_TRUE(wait_for([&] { return !model.live(); }));
}

// A window sleeps between wakes: after the last one nothing may change.
TEST_F(StoreWithARun, LastWakeFindsTheModelIdle) {
  Grow(1000);
  std::atomic<ViewModel*> model{nullptr};
  std::atomic<bool> was_busy{true};
  ViewModel::Options options;
  options.report = false;
  options.wake = [&] { was_busy = model.load()->busy(); };
  Result<std::unique_ptr<ViewModel>> opened = ViewModel::Open(path_, "", options);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  model = opened->get();
  ViewRequest request;
  request.begin_ns = kStart;
  request.end_ns = kStart + 1000 * kPeriod;
  request.column_ns = 1 << 20;
  request.lanes = {LaneIndex(*model.load()->answer()->catalog, LaneKind::kRanges)};
  model.load()->Ask(request);
  while (model.load()->busy()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  opened->reset();  // the reader has ended
  EXPECT_FALSE(was_busy);
}

TEST(ViewModel, StoreThatIsNotThereIsOneClearLine) {
  const auto model = ViewModel::Open("/nonexistent/run.db", "", {});
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("/nonexistent/run.db"), std::string::npos);
  EXPECT_EQ(model.error().message.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace poolscope
