#include "reference-trainer/block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "reference-trainer/codec_bf16.h"
#include "reference-trainer/crc32c.h"

namespace poolscope::trainer {
namespace {

std::vector<uint8_t> Bytes(const std::string& text) { return {text.begin(), text.end()}; }

// RFC 3720, appendix B.4, and the check value of the CRC catalogues.
TEST(Crc32c, OfKnownVectors_IsAsInRfc3720) {
  std::vector<uint8_t> ascending(32), descending(32);
  for (int i = 0; i < 32; ++i) {
    ascending[i] = static_cast<uint8_t>(i);
    descending[i] = static_cast<uint8_t>(31 - i);
  }
  const std::pair<std::vector<uint8_t>, uint32_t> vectors[] = {
      {Bytes("123456789"), 0xE3069283},
      {std::vector<uint8_t>(32, 0), 0x8A9136AA},
      {std::vector<uint8_t>(32, 0xFF), 0x62A8AB43},
      {ascending, 0x46DD794E},
      {descending, 0x113FDB5C},
      {{}, 0}};
  for (const auto& [bytes, crc] : vectors) {
    EXPECT_EQ(Crc32c(bytes), crc);
    EXPECT_EQ(Crc32cByTable(bytes), crc);
  }
}

TEST(Crc32c, ByHardwareAndByTable_AgreeAtEveryLength) {
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 67; ++i) {
    EXPECT_EQ(Crc32c(bytes), Crc32cByTable(bytes)) << i;
    bytes.push_back(static_cast<uint8_t>(i * 151 + 7));
  }
}

// Made by hand from the definition: sign, 8 bits of exponent, 7 bits of mantissa.
TEST(Bf16, OfHandMadeValues_IsRoundedToNearestEven) {
  EXPECT_EQ(ToBf16(1.0F), 0x3F80);
  EXPECT_EQ(ToBf16(-2.0F), 0xC000);
  EXPECT_EQ(ToBf16(0.0F), 0x0000);
  EXPECT_EQ(ToBf16(1.0F + 0x1p-8F), 0x3F80);            // a tie, down to even
  EXPECT_EQ(ToBf16(1.0F + 0x1p-7F + 0x1p-8F), 0x3F82);  // a tie, up to even
  EXPECT_EQ(ToBf16(1.0F + 0x1p-8F + 0x1p-20F), 0x3F81);
  EXPECT_EQ(ToBf16(std::numeric_limits<float>::infinity()), 0x7F80);
  EXPECT_EQ(ToBf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_TRUE(std::isnan(FromBf16(ToBf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_EQ(FromBf16(0x4049), 3.140625F);
}

TEST(Bf16, RoundTrip_IsWithinHalfAnUlp) {
  for (float value = -3; value < 3; value += 0.0137F) {
    EXPECT_NEAR(FromBf16(ToBf16(value)), value, std::abs(value) * 0x1p-8);
  }
}

TEST(Block, RoundTrip_GivesTheValuesAndHalvesTheBytes) {
  const std::vector<float> values = {1.5F, -0.25F, 1024.0F};  // exact in bf16
  for (const Codec codec : {Codec::kNone, Codec::kBf16}) {
    const Block block = Encode(codec, values);
    EXPECT_EQ(block.bytes.size(), codec == Codec::kBf16 ? 6u : 12u);
    EXPECT_EQ(block.bytes.size(), WireBytes(codec, 12));
    std::vector<float> back;
    std::string error;
    EXPECT_TRUE(Decode(block, back, error)) << error;
    EXPECT_EQ(back, values);
  }
}

TEST(Block, WithOneBitFlipped_IsRefused) {
  Block block = Encode(Codec::kNone, std::vector<float>{1, 2, 3});
  std::vector<float> values;
  std::string error;
  for (size_t bit = 0; bit < 8 * block.bytes.size(); ++bit) {
    block.bytes[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    EXPECT_FALSE(Decode(block, values, error));
    block.bytes[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
  }
  EXPECT_NE(error.find("CRC32C"), std::string::npos);
}

}  // namespace
}  // namespace poolscope::trainer
