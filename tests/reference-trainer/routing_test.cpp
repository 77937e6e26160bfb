#include "reference-trainer/routing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reference-trainer/hotness.h"
#include "reference-trainer/model/shard_layout.h"
#include "reference-trainer/weight_blocks.h"

namespace poolscope::trainer {
namespace {

TEST(Routing, Distance_IsTheShorterArc) {
  EXPECT_DOUBLE_EQ(Distance(0, 4, 0, 4), 0);
  EXPECT_DOUBLE_EQ(Distance(0, 4, 2, 4), 0.5);
  EXPECT_DOUBLE_EQ(Distance(0, 4, 3, 4), 0.25);
  EXPECT_DOUBLE_EQ(Distance(0, 2, 0, 4), 0.125);
}

TEST(Routing, Nearest_TakesTheShortestWayAndLeastLoadedTheIdlest) {
  const std::vector<uint64_t> load = {5, 0, 3, 9};
  const std::vector<size_t> holders = HoldersOf(3, 3, 4);
  EXPECT_EQ(holders, (std::vector<size_t>{3, 0, 1}));
  EXPECT_EQ(Route(Routing::kNearest, 0, 4, holders, load), 0u);
  EXPECT_EQ(Route(Routing::kNearest, 3, 4, holders, load), 3u);
  EXPECT_EQ(Route(Routing::kLeastLoaded, 3, 4, holders, load), 1u);
  const std::vector<uint64_t> even(4, 7);
  EXPECT_EQ(Route(Routing::kLeastLoaded, 3, 4, holders, even), 3u);
}

TEST(Hotness, OldUses_CountLess) {
  Hotness hotness(3);
  for (int i = 0; i < 3; ++i) hotness.Count(0);
  for (int i = 0; i < 20; ++i) hotness.Decay();
  hotness.Count(2);
  EXPECT_EQ(hotness.uses(0), 3u);
  EXPECT_NEAR(hotness.score(0), 3 * std::pow(0.9, 20), 1e-12);
  EXPECT_EQ(hotness.Hottest(2), (std::vector<size_t>{2, 0}));
}

TEST(WeightBlocks, OfAnyLayout_CoverEveryParameterOnceAndFindItInItsShard) {
  const GptShape shape{2, 16, 2, 8, false, 3, 1};
  const size_t total = Parameters(shape).size();
  for (const ShardLayout layout : {ShardLayout::kFlat, ShardLayout::kLayer, ShardLayout::kHead}) {
    const auto shards = LayOut(layout, shape, 3);
    const WeightBlocks blocks(shape, shards, total * 4);
    std::vector<int> seen(total, 0);
    uint64_t bytes = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const WeightBlock& block = blocks[i];
      bytes += block.raw_bytes;
      ASSERT_EQ(SizeOf(block.ranges), SizeOf(block.in_shard));
      // The shard's values, numbered by their place among all.
      std::vector<size_t> places;
      for (const Part& part : shards[block.owner]) {
        for (size_t p = part.begin; p < part.end; ++p) places.push_back(p);
      }
      for (size_t r = 0; r < block.ranges.size(); ++r) {
        for (size_t k = 0; k < block.ranges[r].size(); ++k) {
          EXPECT_EQ(places[block.in_shard[r].begin + k], block.ranges[r].begin + k);
          ++seen[block.ranges[r].begin + k];
        }
      }
    }
    EXPECT_EQ(bytes, total * 4);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<std::ptrdiff_t>(total));
  }
}

}  // namespace
}  // namespace poolscope::trainer
