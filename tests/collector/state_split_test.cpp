#include "collector/state_split.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

namespace poolscope {
namespace {

TEST(StateSplit, FirstStateInTheListWins) {
  const StateInterval intervals[] = {{0, 100, State::kInput},
                                     {10, 60, State::kWaitLink, 1},
                                     {20, 30, State::kBusy},
                                     {25, 40, State::kBlockedLink, 2},
                                     {90, 120, State::kUnknown}};
  const auto pieces = SplitStates(intervals, 0, 110);
  const std::vector<std::pair<State, int64_t>> expected = {
      {State::kInput, 10},       {State::kWaitLink, 10}, {State::kBusy, 10},
      {State::kBlockedLink, 10}, {State::kWaitLink, 20}, {State::kInput, 30},
      {State::kUnknown, 20}};
  ASSERT_EQ(pieces.size(), expected.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(pieces[i].state, expected[i].first) << i;
    EXPECT_EQ(pieces[i].duration_ns(), expected[i].second) << i;
  }
}

TEST(StateSplit, OfTwoLinks_TheOneWaitedForLongestCounts) {
  const StateInterval intervals[] = {{10, 50, State::kWaitLink, 1}, {0, 40, State::kWaitLink, 2}};
  const auto pieces = SplitStates(intervals, 0, 50);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].link, 2);
  EXPECT_EQ(pieces[0].end_ns, 40);
  EXPECT_EQ(pieces[1].link, 1);
}

TEST(StateSplit, AnyIntervals_PiecesCoverTheWindowAndEachIsTheFirstState) {
  EXPECT_TRUE(rc::check([] {
    const auto raw = *rc::gen::container<std::vector<std::tuple<int, int, int>>>(
        rc::gen::tuple(rc::gen::inRange(-20, 120), rc::gen::inRange(0, 60),
                       rc::gen::inRange(0, static_cast<int>(State::kCount))));
    std::vector<StateInterval> intervals;
    for (const auto& [begin, length, state] : raw) {
      intervals.push_back({begin, begin + length, static_cast<State>(state)});
    }
    const auto pieces = SplitStates(intervals, 0, 100);
    int64_t at = 0;
    for (const StatePiece& piece : pieces) {
      RC_ASSERT(piece.begin_ns == at);
      RC_ASSERT(piece.end_ns > at);
      at = piece.end_ns;
      for (int64_t ns = piece.begin_ns; ns < piece.end_ns; ++ns) {
        State first = State::kIdle;  // by the definition, ns for ns
        for (const auto& interval : intervals) {
          if (interval.begin_ns <= ns && ns < interval.end_ns) {
            first = std::min(first, interval.state);
          }
        }
        RC_ASSERT(piece.state == first);
      }
    }
    RC_ASSERT(at == 100);
  }));
}

}  // namespace
}  // namespace poolscope
