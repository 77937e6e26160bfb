#include "trace/clock.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace poolscope {
namespace {

// 2.5 ticks per ns, as on a 2.5 GHz machine.
ClockTriple At(int64_t ns) {
  return {static_cast<uint64_t>(ns) * 5 / 2 + 1000, ns, ns + 1'700'000'000'000'000'000};
}

TEST(Clock, EnvironmentForcesMonotonic) {
  setenv("POOLSCOPE_CLOCK", "monotonic", 1);
  EXPECT_EQ(TrustedClock(), ClockKind::kMonotonic);
  unsetenv("POOLSCOPE_CLOCK");
}

TEST(Clock, TriplesOfMonotonicClock_HaveTicksEqualToNanoseconds) {
  const ClockTriple triple = TakeTriple(ClockKind::kMonotonic);
  EXPECT_EQ(triple.ticks, static_cast<uint64_t>(triple.monotonic_ns));
  EXPECT_GT(triple.realtime_ns, 1'600'000'000'000'000'000);
}

TEST(Clock, TicksBetweenTwoTriples_LieBetweenTheirTimes) {
  const ClockKind kind = TrustedClock();
  const ClockTriple first = TakeTriple(kind);
  const uint64_t ticks = ReadTicks(kind);
  const ClockTriple last = TakeTriple(kind);
  Timeline timeline;
  timeline.Add(last);
  timeline.Add(first);
  ASSERT_EQ(timeline.size(), 2u);
  EXPECT_GE(timeline.ToMonotonic(ticks), first.monotonic_ns);
  EXPECT_LE(timeline.ToMonotonic(ticks), last.monotonic_ns);
}

TEST(Timeline, WithoutTriples_GivesTicks) { EXPECT_EQ(Timeline().ToMonotonic(42), 42); }

TEST(Timeline, OneTriple_CountsTicksAsNanoseconds) {
  Timeline timeline;
  timeline.Add({1000, 5000, 0});
  EXPECT_EQ(timeline.ToMonotonic(1007), 5007);
  EXPECT_EQ(timeline.ToMonotonic(993), 4993);
}

TEST(Timeline, AnyOrder_GivesTheSameLine) {
  Timeline timeline;
  for (int64_t ns : {3'000'000, 1'000'000, 2'000'000, 1'000'000}) timeline.Add(At(ns));
  EXPECT_EQ(timeline.size(), 3u);
  for (int64_t ns : {0, 500'000, 1'000'000, 1'500'002, 3'000'000, 90'000'000}) {
    EXPECT_NEAR(timeline.ToMonotonic(At(ns).ticks), ns, 1) << ns;
  }
}

TEST(Timeline, RateChange_IsFollowedPiecewise) {
  Timeline timeline;
  timeline.Add({0, 0, 0});
  timeline.Add({1000, 1000, 0});
  timeline.Add({2000, 3000, 0});
  EXPECT_EQ(timeline.ToMonotonic(500), 500);
  EXPECT_EQ(timeline.ToMonotonic(1500), 2000);
}

TEST(Timeline, OneJump_DoesNotBendTheExtrapolation) {
  Timeline timeline;
  for (int64_t s = 1; s <= 20; ++s) timeline.Add(At(s * 1'000'000'000));
  // The machine was paused for an hour while the TSC stood still.
  ClockTriple jumped = At(21'000'000'000);
  jumped.monotonic_ns += 3'600'000'000'000;
  timeline.Add(jumped);
  EXPECT_NEAR(timeline.ToMonotonic(jumped.ticks + 2'500'000'000),
              jumped.monotonic_ns + 1'000'000'000, 10);
}

TEST(Timeline, ContradictingTriple_LosesToTheLaterOne) {
  Timeline timeline;
  timeline.Add({1000, 1000, 0});
  timeline.Add({5000, 5000, 0});
  timeline.Add({2000, 9000, 0});  // the counter was set back
  EXPECT_EQ(timeline.size(), 2u);
  EXPECT_EQ(timeline.ToMonotonic(2000), 9000);
  timeline.Add({3000, 8000, 0});
  EXPECT_EQ(timeline.size(), 2u);
}

TEST(Timeline, NeverDecreases_OverManyTriples) {
  Timeline timeline;
  for (int64_t i = 1; i <= 10'000; ++i) timeline.Add(At(i * 1'000'000 + i % 7));
  EXPECT_LE(timeline.size(), 4096u);
  int64_t last = 0;
  for (int64_t i = 0; i <= 11'000; ++i) {
    const int64_t now = timeline.ToMonotonic(At(i * 1'000'000 + 3).ticks);
    ASSERT_GT(now, last - 1);
    ASSERT_NEAR(now, i * 1'000'000 + 3, 1000);
    last = now;
  }
}

}  // namespace
}  // namespace poolscope
