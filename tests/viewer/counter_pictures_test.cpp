// Curves of counters.
#include "tests/viewer/run_in_store.h"

namespace poolscope {
namespace {

class CounterPicture : public RunInStore {
 protected:
  void Sample(const char* counter, const std::vector<std::pair<int64_t, double>>& samples) {
    EventBatch batch;
    for (const auto& [at_us, value] : samples) {
      Event event;
      event.kind = EventKind::kCounter;
      event.flags = kEventFloat;
      event.start_ns = kStart + at_us * 1000;
      event.name = *store_->Intern(counter);
      event.value = std::bit_cast<uint64_t>(value);
      batch.events.push_back(event);
    }
    const TrackRow row{0, kRun, threads_.at(8), static_cast<uint32_t>(EventKind::kCounter),
                       *store_->Intern(counter)};
    ASSERT_TRUE(store_->Append(*store_->TrackId(row), batch).ok());
  }
  LanePicture Picture(int64_t begin_us, int64_t end_us, int64_t column_ns = 100) {
    EXPECT_TRUE(store_->Commit().ok());
    ChunkCache cache(size_t{16} << 20);
    const auto catalog = *ReadCatalog(*store_, kRun, nullptr);
    PictureMaker maker(*store_, cache, *catalog);
    for (const Lane& lane : catalog->lanes) {
      if (lane.kind != LaneKind::kCounter) continue;
      const PictureMaker::Order order{
          kStart + begin_us * 1000, kStart + end_us * 1000, column_ns, true, {}};
      return **maker.Make(*catalog, lane, order);
    }
    return {};
  }
};

TEST_F(CounterPicture, ValueHoldsUntilTheNextOneAndMayBeNegative) {
  Sample("reward", {{10, -2}, {40, 3}});
  const LanePicture picture = Picture(0, 100);
  ASSERT_EQ(picture.samples.size(), 2u);
  EXPECT_EQ(picture.samples[0].begin_ns, kStart + 10'000);
  EXPECT_EQ(picture.samples[0].end_ns, kStart + 40'000);
  EXPECT_EQ(picture.samples[0].high, -2);
  EXPECT_EQ(picture.samples[1].high, 3);
  EXPECT_EQ(picture.samples[1].end_ns, kStart + 100'000);
  EXPECT_EQ(picture.min_value, -2);
  EXPECT_EQ(picture.max_value, 3);
}

TEST_F(CounterPicture, ValueOfLongAgoIsStillKnown) {
  Sample("optimizer_state_bytes", {{1, 5e6}});
  const LanePicture picture = Picture(500, 600);
  ASSERT_EQ(picture.samples.size(), 1u);
  EXPECT_EQ(picture.samples[0].begin_ns, kStart + 500'000);
  EXPECT_EQ(picture.samples[0].high, 5e6);
}

TEST_F(CounterPicture, VeryManySamplesAreTheirChunksExtremes) {
  std::vector<std::pair<int64_t, double>> samples;
  const auto many = static_cast<int64_t>(8200 * PictureMaker::kMaxDecodedChunks);
  for (int64_t i = 0; i < many; ++i) samples.emplace_back(i, i % 100 == 0 ? 7 : 1);
  Sample("queue", samples);
  const LanePicture picture = Picture(0, many, many);
  EXPECT_GT(picture.samples.size(), PictureMaker::kMaxDecodedChunks);
  EXPECT_EQ(picture.events, static_cast<uint64_t>(many));
  for (const poolscope::Sample& sample : picture.samples) {
    EXPECT_EQ(sample.high, 7);
    EXPECT_EQ(sample.low, 1);
  }
}

}  // namespace
}  // namespace poolscope
