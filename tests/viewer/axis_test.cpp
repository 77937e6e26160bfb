#include "viewer/axis.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace poolscope {
namespace {

constexpr int64_t kSecond = 1000000000;
constexpr int64_t kHour = 3600 * kSecond;
constexpr int64_t kNow = 1790000000 * kSecond;  // times read as time since the epoch

TEST(TimeAxis, SpanFillsTheWidth) {
  const TimeAxis axis(kNow, kNow + kHour, 1600);
  EXPECT_DOUBLE_EQ(axis.ToPixel(kNow), 0);
  EXPECT_DOUBLE_EQ(axis.ToPixel(kNow + kHour), 1600);
  EXPECT_DOUBLE_EQ(axis.ToPixel(kNow + kHour / 4), 400);
}

TEST(TimeAxis, NeighbouringNanosecondsStayApartInARunOfDays) {
  const TimeAxis axis(kNow, kNow + 100, 1000);
  EXPECT_DOUBLE_EQ(axis.ToPixel(kNow + 51) - axis.ToPixel(kNow + 50), 10);
}

TEST(TimeAxis, ZoomFromHoursToNanosecondsKeepsTheTimeUnderTheCursor) {
  TimeAxis axis(kNow, kNow + 10 * kHour, 1600);
  const int64_t target = axis.ToTime(700);
  for (int i = 0; i < 400; ++i) axis.ZoomAt(700, 0.9);
  EXPECT_DOUBLE_EQ(axis.span_ns(), TimeAxis::kMinSpanNs);
  EXPECT_NEAR(axis.ToPixel(target), 700, 1.01 / axis.ns_per_px());
}

TEST(TimeAxis, SpanTooSmallGrowsAroundItsMiddle) {
  const TimeAxis axis(kNow + 100, kNow + 100, 100);
  EXPECT_EQ(axis.begin_ns(), kNow + 95);
  EXPECT_EQ(axis.end_ns(), kNow + 105);
}

RC_GTEST_PROP(TimeAxis, PanThereAndBackReturnsToTheSamePicture, ()) {
  const auto span = *rc::gen::inRange<int64_t>(10, 100 * kHour);
  const auto px = *rc::gen::inRange<int>(-100000, 100000);
  TimeAxis axis(kNow, kNow + span, 1600);
  const double before = axis.ToPixel(kNow + span / 3);
  axis.PanBy(px);
  axis.PanBy(-px);
  RC_ASSERT(std::fabs(axis.ToPixel(kNow + span / 3) - before) < 1e-3);
}

RC_GTEST_PROP(TimeAxis, PixelAndTimeAreInverse, ()) {
  const auto span = *rc::gen::inRange<int64_t>(10, 100 * kHour);
  const auto px = *rc::gen::inRange<int>(0, 1600);
  const TimeAxis axis(kNow, kNow + span, 1600);
  // Times are whole nanoseconds: at most one is lost.
  RC_ASSERT(std::fabs(axis.ToPixel(axis.ToTime(px)) - px) <= 1 / axis.ns_per_px() + 1e-6);
}

RC_GTEST_PROP(TimeAxis, ZoomInAndOutKeepsTheCursorsTime, ()) {
  const auto px = *rc::gen::inRange<int>(0, 1600);
  const auto steps = *rc::gen::inRange<int>(1, 60);
  TimeAxis axis(kNow, kNow + kHour, 1600);
  const double before = axis.ToPixel(kNow + kHour / 2);
  for (int i = 0; i < steps; ++i) axis.ZoomAt(px, 0.8);
  for (int i = 0; i < steps; ++i) axis.ZoomAt(px, 1.25);
  if (steps < 50) RC_ASSERT(std::fabs(axis.ToPixel(kNow + kHour / 2) - before) < 0.5);
}

RC_GTEST_PROP(AxisTicks, TicksAreRoundInSightAndApart, ()) {
  const auto span = *rc::gen::inRange<int64_t>(20, 100 * kHour);
  const auto shift = *rc::gen::inRange<int64_t>(0, 100 * kHour);
  const TimeAxis axis(kNow + shift, kNow + shift + span, 1600);
  const AxisTicks ticks = TicksOf(axis, kNow, 100);
  RC_ASSERT(ticks.ticks.size() <= 17u);
  double last = -1e9;
  for (const Tick& tick : ticks.ticks) {
    RC_ASSERT((tick.time_ns - kNow) % ticks.step_ns == 0);
    const double px = axis.ToPixel(tick.time_ns);
    RC_ASSERT(px >= -1.0 / axis.ns_per_px() - 1e-6 && px <= 1600.001);
    RC_ASSERT(px - last >= 99.9);
    last = px;
  }
}

TEST(AxisTicks, LabelsCarryUnitsThatFitTheZoom) {
  const auto labels = [](int64_t begin, int64_t end) {
    std::string all;
    for (const Tick& tick : TicksOf(TimeAxis(kNow + begin, kNow + end, 500), kNow, 100).ticks) {
      all += tick.label + "|";
    }
    return all;
  };
  EXPECT_EQ(labels(0, 10 * kSecond), "0 s|2 s|4 s|6 s|8 s|10 s|");
  EXPECT_EQ(labels(kSecond, kSecond + kSecond / 2), "1.0 s|1.1 s|1.2 s|1.3 s|1.4 s|1.5 s|");
  EXPECT_EQ(labels(60 * kSecond, 120 * kSecond), "1:00 min|1:15 min|1:30 min|1:45 min|2:00 min|");
  EXPECT_EQ(labels(2 * kHour, 6 * kHour), "2:00:00 h|3:00:00 h|4:00:00 h|5:00:00 h|6:00:00 h|");
}

TEST(AxisTicks, BelowAMillisecondLabelsAreOffsetsFromANamedBase) {
  const int64_t begin = 12 * kSecond + 301000000 + 450;
  const AxisTicks ticks = TicksOf(TimeAxis(kNow + begin, kNow + begin + 50, 500), kNow, 100);
  EXPECT_EQ(ticks.base, "12.301000 s");
  ASSERT_FALSE(ticks.ticks.empty());
  EXPECT_EQ(ticks.ticks.front().label, "+450 ns");
}

}  // namespace
}  // namespace poolscope
