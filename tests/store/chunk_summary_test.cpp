#include "store/chunk_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace poolscope {
namespace {

Event Range(int64_t start, int64_t end, uint32_t name, uint16_t depth = 0) {
  Event event;
  event.start_ns = start;
  event.duration_ns = end - start;
  event.name = name;
  event.depth = depth;
  return event;
}

TEST(ChunkSummary, NestedRanges_CountOnce) {
  // Name 1 from 100 to 200 with 2 inside; 3 alone; by end.
  const EventBatch batch{
      {Range(110, 130, 2, 1), Range(140, 190, 2, 1), Range(100, 200, 1), Range(250, 300, 3)}, {}};
  const ChunkDigest digest = Summarize(batch);
  EXPECT_EQ(digest.first_ns, 100);
  EXPECT_EQ(digest.last_ns, 300);
  EXPECT_EQ(digest.busy_ns, 150);
  EXPECT_EQ(digest.max_depth, 1u);
  ASSERT_EQ(digest.names.size(), 3u);
  EXPECT_EQ(digest.names[0].name, 2u);
  EXPECT_EQ(digest.names[0].events, 2);
  EXPECT_EQ(digest.names[0].total_ns, 70);
}

TEST(ChunkSummary, InnerRangesWhoseOuterIsInALaterChunk_AreStillBusy) {
  const EventBatch batch{{Range(0, 10, 1, 1), Range(20, 40, 1, 1)}, {}};
  EXPECT_EQ(Summarize(batch).busy_ns, 30);
}

TEST(ChunkSummary, Buckets_HaveTheShareAndTheNameThatCoversMost) {
  // 64 buckets of 100 ns over 0..6400: full, empty, 60 + 20, and the last one full.
  const EventBatch batch{
      {Range(0, 100, 7), Range(200, 260, 8), Range(270, 290, 9), Range(6300, 6400, 7)}, {}};
  const auto buckets = Summarize(batch).buckets;
  ASSERT_EQ(buckets.size(), 64u);
  EXPECT_EQ(buckets[0].covered, 255);
  EXPECT_EQ(buckets[0].name, 7u);
  EXPECT_EQ(buckets[1].covered, 0);
  EXPECT_EQ(buckets[1].name, 0u);
  EXPECT_EQ(buckets[2].covered, 204);  // 0.8 x 255
  EXPECT_EQ(buckets[2].name, 8u);
  EXPECT_EQ(buckets[63].covered, 255);
}

TEST(ChunkSummary, AnythingAtAll_IsSeen) {
  const EventBatch batch{{Range(0, 1, 4), Range(1'000'000, 64'000'000, 5)}, {}};
  EXPECT_EQ(Summarize(batch).buckets[0].covered, 1);
}

// The union and the buckets by brute force, nanosecond by nanosecond.
TEST(ChunkSummary, OverlappingRangesInAnyOrder_EqualTheBruteForce) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    EventBatch batch;
    std::vector<bool> covered(640, false);
    batch.events.push_back(Range(0, 0, 1));
    batch.events.push_back(Range(640, 640, 1));
    for (int i = 0; i < 12; ++i) {
      const int64_t start = random() % 600, end = start + random() % 40;
      batch.events.push_back(Range(start, end, 1 + random() % 3));
      for (int64_t at = start; at < end; ++at) covered[static_cast<size_t>(at)] = true;
    }
    const ChunkDigest digest = Summarize(batch);
    EXPECT_EQ(digest.busy_ns, std::count(covered.begin(), covered.end(), true));
    for (int bucket = 0; bucket < 64; ++bucket) {
      const auto from = covered.begin() + bucket * 10;
      const double share = static_cast<double>(std::count(from, from + 10, true)) / 10;
      EXPECT_NEAR(digest.buckets[static_cast<size_t>(bucket)].covered, share * 255, 1.0) << bucket;
    }
  }
}

TEST(ChunkSummary, ExtremeTimes_DoNotOverflow) {
  EventBatch batch;
  for (int64_t start : {INT64_MIN, int64_t{0}, INT64_MAX}) {
    for (int64_t duration : {INT64_MIN, int64_t{0}, INT64_MAX}) {
      Event event;
      event.start_ns = start;
      event.duration_ns = duration;
      batch.events.push_back(event);
    }
  }
  const ChunkDigest digest = Summarize(batch);
  EXPECT_EQ(digest.first_ns, INT64_MIN);
  EXPECT_EQ(digest.last_ns, INT64_MAX);
  EXPECT_TRUE(DecodeNames(EncodeNames(digest.names)).ok());
  EXPECT_TRUE(DecodeBuckets(EncodeBuckets(digest.buckets)).ok());
}

TEST(Malicious_ChunkSummary, BrokenBytes_AreErrors) {
  const std::vector<uint8_t> names = EncodeNames({{1, 2, 3, 4}, {500, 6, 7, 8}});
  for (size_t length = 0; length < names.size(); ++length) {
    EXPECT_FALSE(DecodeNames(std::span(names).first(length)).ok()) << length;
  }
  EXPECT_FALSE(DecodeNames(std::vector<uint8_t>{0xff, 0xff, 0xff, 0xff, 0x0f}).ok());
  const std::vector<uint8_t> buckets =
      EncodeBuckets(std::vector<Store::SummaryBucket>(64, {7, 300}));
  for (size_t length = 1; length < buckets.size(); ++length) {
    EXPECT_FALSE(DecodeBuckets(std::span(buckets).first(length)).ok()) << length;
  }
}

}  // namespace
}  // namespace poolscope
