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

TEST(Format, SentenceBeginsLargeAndKeepsNumbersWithTheirUnits) {
  EXPECT_EQ(FormatSentence("too much: 18.6 % of it, 430.0 ms -> 290 ms"),
            "Too much: 18.6\xc2\xa0% of it, 430.0\xc2\xa0ms \xe2\x86\x92 290\xc2\xa0ms");
  EXPECT_EQ(FormatSentence("compute 8 -> 10 workers"), "Compute 8 \xe2\x86\x92 10 workers");
}

TEST(Format, SentenceKeepsANameAtItsBeginning) {
  EXPECT_EQ(FormatSentence("gradients.codec none"), "gradients.codec none");
  EXPECT_EQ(FormatSentence("gradients: stood"), "gradients: stood");
}

TEST(Format, CounterHasTheUnitThatItsNameSays) {
  EXPECT_EQ(FormatCounter("device 0.allocated_bytes", 3.2e9), "3.20 GB");
  EXPECT_EQ(FormatCounter("device 0.pcie_read_bytes_per_second", 1.5e9), "1.50 GB/s");
  EXPECT_EQ(FormatCounter("device 0.sm_active", 0.57), "57 %");
  EXPECT_EQ(FormatCounter("step_seconds", 0.0412), "41.2 ms");
  EXPECT_EQ(FormatCounter("loss", 5.641), "5.64");
  EXPECT_EQ(FormatCounter("tokens", 12), "12");
  EXPECT_EQ(FormatCounter("reward", -0.25),
            "\xe2\x88\x92"
            "0.25");
}

}  // namespace
}  // namespace poolscope
