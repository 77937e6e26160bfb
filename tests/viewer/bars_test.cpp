#include "viewer/bars.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <map>

namespace poolscope {
namespace {

Bar Range(int64_t begin, int64_t end, uint32_t name = 1, uint16_t row = 0) {
  Bar bar;
  bar.begin_ns = begin;
  bar.end_ns = end;
  bar.name = name;
  bar.row = row;
  return bar;
}

TEST(BarMerger, RangesWiderThanAColumnStayExact) {
  BarMerger merger(10);
  merger.Add(Range(0, 25));
  merger.Add(Range(25, 70, 2));
  const std::vector<Bar> bars = merger.Finish();
  ASSERT_EQ(bars.size(), 2u);
  EXPECT_EQ(bars[1].begin_ns, 25);
  EXPECT_EQ(bars[1].end_ns, 70);
  EXPECT_EQ(bars[1].name, 2u);
  EXPECT_EQ(bars[1].covered, 255);
}

TEST(BarMerger, NarrowRangesOfAColumnBecomeOneBarNamedByTheLargest) {
  BarMerger merger(100);
  merger.Add(Range(0, 10, 1));
  merger.Add(Range(20, 60, 2));
  merger.Add(Range(70, 80, 1));
  const std::vector<Bar> bars = merger.Finish();
  ASSERT_EQ(bars.size(), 1u);
  EXPECT_EQ(bars[0].begin_ns, 0);
  EXPECT_EQ(bars[0].end_ns, 80);
  EXPECT_EQ(bars[0].name, 2u);
  EXPECT_EQ(bars[0].events, 3u);
  EXPECT_NEAR(bars[0].covered / 255.0, 60.0 / 80, 0.01);
}

TEST(BarMerger, RowsDoNotMix) {
  BarMerger merger(100);
  merger.Add(Range(0, 1000, 1, 0));
  merger.Add(Range(0, 300, 2, 1));
  merger.Add(Range(300, 1000, 3, 1));
  const std::vector<Bar> bars = merger.Finish();
  ASSERT_EQ(bars.size(), 3u);
  EXPECT_EQ(bars[0].row, 0);
  EXPECT_EQ(bars[1].row, 1);
}

RC_GTEST_PROP(BarMerger, KeepsCountsAndOrderWithinTheBoundOfTheWidth, ()) {
  const int64_t column = *rc::gen::inRange<int64_t>(1, 1000);
  const auto lengths =
      *rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, 3000));
  BarMerger merger(column);
  int64_t at = -5000;
  for (size_t i = 0; i + 1 < lengths.size(); i += 2) {
    at += lengths[i] / 8;
    merger.Add(Range(at, at + lengths[i + 1] / 8, static_cast<uint32_t>(1 + i % 5)));
    at += lengths[i + 1] / 8;
  }
  const std::vector<Bar> bars = merger.Finish();
  uint64_t events = 0;
  int64_t last = INT64_MIN;
  for (const Bar& bar : bars) {
    RC_ASSERT(bar.begin_ns >= last);
    RC_ASSERT(bar.end_ns >= bar.begin_ns);
    last = bar.end_ns;
    events += bar.events;
  }
  RC_ASSERT(events == lengths.size() / 2);
  const auto columns = static_cast<size_t>((at + 5000) / column + 2);
  RC_ASSERT(bars.size() <= 2 * columns);
}

TEST(RowPacker, OverlappingRangesGetRowsOfTheirOwn) {
  RowPacker packer(8);
  EXPECT_EQ(packer.Place(0, 10), 0);
  EXPECT_EQ(packer.Place(5, 20), 1);
  EXPECT_EQ(packer.Place(10, 12), 0);
  EXPECT_EQ(packer.Place(11, 30), 2);
  EXPECT_EQ(packer.rows(), 3);
}

TEST(RowPacker, NeverUsesMoreRowsThanAllowed) {
  RowPacker packer(2);
  for (int64_t i = 0; i < 10; ++i) EXPECT_LT(packer.Place(i, i + 100), 2);
}

TEST(SplitStates, TheFirstStateOfTheOrderWins) {
  const auto slices = SplitStates({{0, 100, State::kWaitLink}, {20, 50, State::kBusy}}, 0, 120);
  ASSERT_EQ(slices.size(), 4u);
  EXPECT_EQ(slices[0].state, State::kWaitLink);
  EXPECT_EQ(slices[1].state, State::kBusy);
  EXPECT_EQ(slices[1].begin_ns, 20);
  EXPECT_EQ(slices[1].end_ns, 50);
  EXPECT_EQ(slices[3].state, State::kIdle);
  EXPECT_EQ(slices[3].end_ns, 120);
}

RC_GTEST_PROP(SplitStates, SlicesFillTheSpanAndAgreeWithEachInstant, ()) {
  const auto seeds = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1000000));
  std::vector<StateSlice> ranges;
  for (const int seed : seeds) {
    const int64_t begin = seed % 97 - 10;
    ranges.push_back({begin, begin + seed / 97 % 40,
                      static_cast<State>(seed / 3880 % static_cast<int>(State::kCount))});
  }
  const auto slices = SplitStates(ranges, 0, 80);
  int64_t at = 0;
  for (const StateSlice& slice : slices) {
    RC_ASSERT(slice.begin_ns == at);
    for (int64_t t = slice.begin_ns; t < slice.end_ns; ++t) {
      State expected = State::kIdle;
      for (const StateSlice& range : ranges) {
        if (range.begin_ns <= t && t < range.end_ns) expected = std::min(expected, range.state);
      }
      RC_ASSERT(slice.state == expected);
    }
    at = slice.end_ns;
  }
  RC_ASSERT(at == 80);
}

TEST(StateColumns, ShortSlicesBecomeSharesAndLongOnesStay) {
  const auto columns =
      ColumnsOf({{0, 25, State::kBusy}, {25, 50, State::kIdle}, {50, 250, State::kWaitLink}}, 50);
  ASSERT_EQ(columns.size(), 2u);
  EXPECT_EQ(columns[0].end_ns, 50);
  EXPECT_NEAR(columns[0].share[static_cast<size_t>(State::kBusy)], 128, 1);
  EXPECT_NEAR(columns[0].share[static_cast<size_t>(State::kIdle)], 128, 1);
  EXPECT_EQ(columns[1].share[static_cast<size_t>(State::kWaitLink)], 255);
}

TEST(StateColumns, ShortSliceBetweenLongOnesIsAShareOfItsGridColumn) {
  const auto columns = ColumnsOf(
      {{0, 1010, State::kWaitLink}, {1010, 1020, State::kBusy}, {1020, 2000, State::kWaitLink}},
      100);
  ASSERT_EQ(columns.size(), 3u);
  EXPECT_EQ(columns[1].begin_ns, 1000);
  EXPECT_EQ(columns[1].end_ns, 1100);
  EXPECT_NEAR(columns[1].share[static_cast<size_t>(State::kBusy)], 25.5, 1);
  EXPECT_EQ(columns[2].share[static_cast<size_t>(State::kWaitLink)], 255);
}

RC_GTEST_PROP(StateColumns, SharesAddUpToTheSlices, ()) {
  const int64_t column = *rc::gen::inRange<int64_t>(1, 400);
  const auto lengths =
      *rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(1, 1000));
  std::vector<StateSlice> slices;
  int64_t at = -3000;
  double busy = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const State state = i % 2 == 0 ? State::kBusy : State::kIdle;
    slices.push_back({at, at + lengths[i], state});
    at += lengths[i];
    if (state == State::kBusy) busy += static_cast<double>(lengths[i]);
  }
  const auto columns = ColumnsOf(slices, column);
  int64_t end = -3000;
  double drawn = 0;
  for (const StateColumn& part : columns) {
    RC_ASSERT(part.begin_ns == end);
    RC_ASSERT(part.begin_ns < part.end_ns);
    end = part.end_ns;
    drawn += static_cast<double>(part.end_ns - part.begin_ns) *
             part.share[static_cast<size_t>(State::kBusy)] / 255;
  }
  RC_ASSERT(end == at);
  // Shares are in 255ths, neighbours that differ by up to 6 of them are drawn as one, and a 64th of
  // a column may be dropped between two long slices.
  RC_ASSERT(std::fabs(drawn - busy) <= static_cast<double>(at + 3000) * (7.0 / 255 + 1.0 / 64) + 1);
  RC_ASSERT(static_cast<int64_t>(columns.size()) <= 2 * ((at + 3000) / column + 2));
}

TEST(StateColumns, WindowsAddUpToColumns) {
  StateColumnMaker maker(40);
  for (int64_t i = 0; i < 4; ++i) {
    StateNs state_ns{};
    state_ns[static_cast<size_t>(i < 2 ? State::kBusy : State::kIdle)] = 10;
    maker.Add(i * 10, 10, state_ns);
  }
  const auto columns = maker.Finish();
  ASSERT_EQ(columns.size(), 1u);
  EXPECT_EQ(columns[0].begin_ns, 0);
  EXPECT_EQ(columns[0].end_ns, 40);
  EXPECT_NEAR(columns[0].share[static_cast<size_t>(State::kBusy)], 128, 1);
}

}  // namespace
}  // namespace poolscope
