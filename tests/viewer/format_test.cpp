#include "viewer/format.h"

#include <gtest/gtest.h>

namespace poolscope {
namespace {

TEST(Format, DurationHasThreeDigitsAndAUnit) {
  EXPECT_EQ(FormatDuration(842), "842 ns");
  EXPECT_EQ(FormatDuration(12300), "12.3 µs");
  EXPECT_EQ(FormatDuration(4560000), "4.56 ms");
  EXPECT_EQ(FormatDuration(1.2e9), "1.20 s");
  EXPECT_EQ(FormatDuration(185e9), "3 min 05 s");
  EXPECT_EQ(FormatDuration(7260e9), "2 h 01 min");
}

TEST(Format, ValueThatRoundsUpTakesTheNextUnit) {
  EXPECT_EQ(FormatDuration(999600), "1.00 ms");
  EXPECT_EQ(FormatBytes(999600), "1.00 MB");
}

TEST(Format, BytesAndCountsAndPercent) {
  EXPECT_EQ(FormatBytes(512), "512 B");
  EXPECT_EQ(FormatBytes(48e6), "48.0 MB");
  EXPECT_EQ(FormatCount(9999), "9999");
  EXPECT_EQ(FormatCount(12345), "12.3 k");
  EXPECT_EQ(FormatPercent(0.042), "4.2 %");
  EXPECT_EQ(FormatPercent(0.57), "57 %");
}

}  // namespace
}  // namespace poolscope
