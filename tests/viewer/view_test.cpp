#include "viewer/view.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "viewer/input.h"

namespace poolscope {
namespace {

constexpr int64_t kSecond = 1000000000;

View RunOf(int64_t seconds) {
  View view;
  view.axis.Resize(1000);
  view.Grow(0, seconds * kSecond);
  return view;
}

InputEvent Key(int code, bool down) {
  InputEvent event;
  event.kind = InputEvent::Kind::kKey;
  event.code = code;
  event.down = down;
  return event;
}

TEST(View, FitShowsTheWholeRunAndKeepsShowingItAsItGrows) {
  View view = RunOf(10);
  EXPECT_LE(view.axis.begin_ns(), 0);
  EXPECT_GE(view.axis.end_ns(), 10 * kSecond);
  view.Grow(0, 20 * kSecond);
  EXPECT_GE(view.axis.end_ns(), 20 * kSecond);
}

TEST(View, AViewThatWasMovedStaysWhenTheRunGrows) {
  View view = RunOf(10);
  view.Press('W', false);
  const int64_t begin = view.axis.begin_ns();
  view.Grow(0, 20 * kSecond);
  EXPECT_EQ(view.axis.begin_ns(), begin);
}

TEST(View, FollowingKeepsTheNewestTimeInSightUntilTheUserPans) {
  View view = RunOf(600);
  view.Show(100 * kSecond, 110 * kSecond);
  view.Press('L', false);
  view.Grow(0, 700 * kSecond);
  EXPECT_GE(view.axis.end_ns(), 700 * kSecond);
  EXPECT_NEAR(view.axis.span_ns(), 10e9, 1);
  view.Press('A', false);
  EXPECT_FALSE(view.follow);
  const int64_t begin = view.axis.begin_ns();
  view.Grow(0, 800 * kSecond);
  EXPECT_EQ(view.axis.begin_ns(), begin);
}

TEST(View, EscapeClearsWhatIsSelectedAndSearched) {
  View view = RunOf(10);
  view.selected = EventKey{1, 2, 3, 4};
  view.highlight = View::Highlight{1, 2, "gradients"};
  view.search = "forward";
  view.Press(kKeyEscape, false);
  EXPECT_FALSE(view.selected || view.highlight);
  EXPECT_TRUE(view.search.empty());
}

TEST(View, ColoursAreTheProgramsUntilCSaysByName) {
  View view;
  EXPECT_TRUE(view.program_colours);
  EXPECT_TRUE(view.Press('C', false));
  EXPECT_FALSE(view.program_colours);
  view.Press('C', false);
  EXPECT_TRUE(view.program_colours);
}

TEST(View, FoldedPoolsStayAsChosenWhenLanesAreAdded) {
  const auto lanes = [](int64_t first_pool, int64_t workers) {
    std::vector<Lane> out;
    for (const auto& [pool, count] : {std::pair("a", first_pool), {"b", workers}}) {
      out.push_back({LaneKind::kPool, pool, "", pool});
      for (int64_t i = 0; i < count; ++i) out.push_back({LaneKind::kStates, "", "", pool, i});
    }
    return out;
  };
  View view;
  view.FoldLanes(lanes(1, 9));
  EXPECT_FALSE(view.folded[0]);
  EXPECT_TRUE(view.folded[2]);
  view.ToggleFold(lanes(1, 9)[2], true);
  view.FoldLanes(lanes(2, 9));
  EXPECT_FALSE(view.folded[3]);
  view.ToggleFold(lanes(2, 9)[0], false);
  view.Press('E', false);
  view.FoldLanes(lanes(2, 9));
  EXPECT_EQ(std::count(view.folded.begin(), view.folded.end(), true), 0);
  view.Press('E', false);
  view.FoldLanes(lanes(2, 9));
  EXPECT_TRUE(view.folded[3]);
}

TEST(InputQueue, KeyTapsShorterThanAFrameAreAllSeen) {
  InputQueue queue;
  for (int i = 0; i < 3; ++i) {
    queue.Push(Key('W', true));
    queue.Push(Key('W', false));
  }
  int presses = 0;
  int frames = 0;
  while (!queue.empty()) {
    int changes = 0;
    for (const InputEvent& event : queue.TakeFrame()) {
      ++changes;
      if (event.down) ++presses;
    }
    EXPECT_EQ(changes, 1);
    ++frames;
  }
  EXPECT_EQ(presses, 3);
  EXPECT_EQ(frames, 6);
}

TEST(InputQueue, CursorStaysWhereTheClickWas) {
  InputQueue queue;
  InputEvent press;
  press.kind = InputEvent::Kind::kButton;
  press.down = true;
  press.x = 10;
  queue.Push(press);
  InputEvent move;
  move.kind = InputEvent::Kind::kMove;
  move.x = 500;
  queue.Push(move);
  EXPECT_EQ(queue.TakeFrame().size(), 1u);
  EXPECT_EQ(queue.TakeFrame().size(), 1u);
}

}  // namespace
}  // namespace poolscope
