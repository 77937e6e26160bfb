// Names and stated figures of codecs, and the parts that they are made of.
#include "reference-trainer/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "reference-trainer/codec_bytes.h"
#include "reference-trainer/codec_fp16.h"
#include "reference-trainer/codec_one_bit.h"
#include "reference-trainer/codec_top_k.h"

namespace poolscope::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(CodecName, OfEveryChain_IsReadBackAsTheSame) {
  for (const char* text : {"none", "bf16", "fp16", "topk:0.01", "topk:0.5+lz4", "1bit", "lz4",
                           "zstd", "deflate", "bf16+zstd", "fp16+deflate", "1bit+zstd"}) {
    const auto codec = ParseCodec(text, CodecUse::kGradients);
    ASSERT_TRUE(std::holds_alternative<Codec>(codec)) << std::get<std::string>(codec);
    EXPECT_EQ(CodecName(std::get<Codec>(codec)), text);
  }
  const auto delta = ParseCodec("1bit-delta+zstd", CodecUse::kWeights);
  ASSERT_TRUE(std::holds_alternative<Codec>(delta));
  EXPECT_EQ(CodecName(std::get<Codec>(delta)), "1bit-delta+zstd");
}

TEST(CodecName, OfNonsense_IsAnErrorThatNamesTheKnownOnes) {
  const std::pair<const char*, const char*> wrong[] = {{"zip", "'zip'"},
                                                       {"", "no codec is named ''"},
                                                       {"bf16+", "no codec is named ''"},
                                                       {"+zstd", "no codec is named ''"},
                                                       {"zstd+bf16", "a compressor comes last"},
                                                       {"lz4+zstd", "one compressor"},
                                                       {"bf16+fp16", "coded once"},
                                                       {"bf16+none", "none is no part"},
                                                       {"none:1", "none is no part"},
                                                       {"bf16:3", "no parameter"},
                                                       {"zstd:3", "no parameter"},
                                                       {"topk", "topk:0.01"},
                                                       {"topk:", "topk:0.01"},
                                                       {"topk:0", "topk:0.01"},
                                                       {"topk:0.6", "topk:0.01"},
                                                       {"topk:nan", "topk:0.01"},
                                                       {"topk:0.1x", "topk:0.01"},
                                                       {"1bit-delta", "is for weights"}};
  for (const auto& [text, why] : wrong) {
    const auto codec = ParseCodec(text, CodecUse::kGradients);
    const auto* error = std::get_if<std::string>(&codec);
    ASSERT_NE(error, nullptr) << text;
    EXPECT_THAT(*error, HasSubstr(why));
    for (const char* known : {"bf16", "fp16", "topk:SHARE", "1bit", "lz4", "zstd", "deflate"}) {
      EXPECT_THAT(*error, HasSubstr(known));
    }
  }
  for (const char* text : {"1bit", "topk:0.01", "topk:0.01+zstd"}) {
    EXPECT_TRUE(std::holds_alternative<std::string>(ParseCodec(text, CodecUse::kWeights))) << text;
  }
}

TEST(StatedFigures, OfAChain_AddTheTimesOfItsParts) {
  const Codec chain{ValueCoder::kBf16, ByteCoder::kZstd};
  // A byte is passed over at 50 GB/s, and half a byte compressed at 330 MB/s, unpacked at 940.
  EXPECT_NEAR(1e9 / StatedFigures(chain).encode_bytes_per_second, 1 / 50.0 + 0.5 / 0.33, 1e-9);
  EXPECT_NEAR(1e9 / StatedFigures(chain).decode_bytes_per_second, 1 / 50.0 + 0.5 / 0.94, 1e-9);
  EXPECT_LT(StatedFigures(chain).ratio, 0.5);
  EXPECT_DOUBLE_EQ(StatedFigures({ValueCoder::kTopK, ByteCoder::kNone, 0.01}).ratio, 0.02);
  EXPECT_EQ(StatedFigures(Codec::kNone).ratio, 1);
  EXPECT_EQ(1 / StatedFigures(Codec::kNone).encode_bytes_per_second, 0);
}

// Made by hand from the definition: sign, 5 bits of exponent, 10 bits of mantissa.
TEST(Fp16, OfHandMadeValues_IsRoundedToNearestEven) {
  EXPECT_EQ(ToFp16(1.0F), 0x3C00);
  EXPECT_EQ(ToFp16(-2.0F), 0xC000);
  EXPECT_EQ(ToFp16(-0.0F), 0x8000);
  EXPECT_EQ(ToFp16(65504.0F), 0x7BFF);
  EXPECT_EQ(ToFp16(65519.0F), 0x7BFF);
  EXPECT_EQ(ToFp16(65520.0F), 0x7C00);  // a tie, up to even
  EXPECT_EQ(ToFp16(1e20F), 0x7C00);
  EXPECT_EQ(ToFp16(-kInfinity), 0xFC00);
  EXPECT_EQ(ToFp16(1.0F + 0x1p-11F), 0x3C00);             // a tie, down to even
  EXPECT_EQ(ToFp16(1.0F + 0x1p-10F + 0x1p-11F), 0x3C02);  // a tie, up to even
  EXPECT_EQ(ToFp16(0x1p-14F), 0x0400);                    // the least normal one
  EXPECT_EQ(ToFp16(0x1p-24F), 0x0001);                    // the least one
  EXPECT_EQ(ToFp16(0x1p-25F), 0x0000);                    // a tie, down to even
  EXPECT_EQ(ToFp16(0x1.8p-24F), 0x0002);                  // a tie, up to even
  EXPECT_TRUE(std::isnan(FromFp16(ToFp16(kNan))));
  EXPECT_EQ(FromFp16(0x3555), 0.333251953125F);
}

TEST(Fp16, EveryBitPattern_ComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = FromFp16(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(ToFp16(value), bits);
  }
}

TEST(Fp16, Scaled_KeepsElevenBitsOfValuesOfAnySize) {
  std::vector<uint8_t> wire;
  std::string error;
  for (const float size : {1e-38F, 1e-12F, 1.0F, 1e9F, 3e38F}) {
    const std::vector<float> values = {size, -size / 3, size / 1000, 0};
    std::vector<float> back(values.size());
    EncodeFp16(values, wire);
    EXPECT_EQ(wire.size(), 4 + 2 * values.size());
    ASSERT_TRUE(DecodeFp16(wire, back, error)) << error;
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(back[i], values[i], std::abs(values[i]) * 0x1p-11F);
    }
  }
}

TEST(Fp16, WithInfinitiesAndNan_KeepsTheOtherValues) {
  std::vector<uint8_t> wire;
  std::string error;
  const std::vector<float> values = {kInfinity, 3.0F, -kInfinity, kNan, -0.5F};
  std::vector<float> back(values.size());
  EncodeFp16(values, wire);
  ASSERT_TRUE(DecodeFp16(wire, back, error)) << error;
  EXPECT_EQ(back[0], kInfinity);
  EXPECT_EQ(back[1], 3.0F);
  EXPECT_EQ(back[2], -kInfinity);
  EXPECT_TRUE(std::isnan(back[3]));
  EXPECT_EQ(back[4], -0.5F);
}

TEST(TopK, OfHandMadeValues_KeepsTheLargestAndOfEqualOnesTheFirst) {
  std::vector<uint8_t> wire;
  std::string error;
  const std::vector<float> values = {1, -5, 2, 0, 2, -2, 4, 0.5F, 0, 0};
  std::vector<float> back(values.size());
  EncodeTopK(0.4, values, wire);
  EXPECT_EQ(wire.size(), 4u + 4 * 8);
  ASSERT_TRUE(DecodeTopK(wire, back, error)) << error;
  EXPECT_THAT(back, ElementsAre(0, -5, 2, 0, 2, 0, 4, 0, 0, 0));
  EncodeTopK(1e-9, values, wire);  // never none
  ASSERT_TRUE(DecodeTopK(wire, back, error)) << error;
  EXPECT_THAT(back, ElementsAre(0, -5, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(TopK, WithNan_SendsIt) {
  std::vector<uint8_t> wire;
  std::string error;
  const std::vector<float> values = {1, kNan, kInfinity, kNan};
  std::vector<float> back(values.size());
  EncodeTopK(0.5, values, wire);
  ASSERT_TRUE(DecodeTopK(wire, back, error)) << error;
  EXPECT_TRUE(std::isnan(back[1]) && std::isnan(back[3]));
  EXPECT_EQ(back[0], 0);
}

TEST(OneBit, OfHandMadeValues_IsTheSignTimesTheGroupsMeanMagnitude) {
  std::vector<float> values(kOneBitGroup + 2, 1);
  values[3] = -33;  // (127 + 33) ÷ 128 = 1.25
  values[kOneBitGroup] = -4;
  values[kOneBitGroup + 1] = 2;
  std::vector<uint8_t> wire;
  std::string error;
  std::vector<float> back(values.size());
  EncodeOneBit(values, wire);
  EXPECT_EQ(wire.size(), 2 * 4 + 17u);
  ASSERT_TRUE(DecodeOneBit(wire, back, error)) << error;
  EXPECT_EQ(back[0], 1.25F);
  EXPECT_EQ(back[3], -1.25F);
  EXPECT_EQ(back[kOneBitGroup], -3);
  EXPECT_EQ(back[kOneBitGroup + 1], 3);
}

TEST(Compress, RoundTrip_IsExactAndNeverMoreThanAHeaderLarger) {
  std::vector<uint8_t> text, noise;
  uint32_t state = 1;
  for (int i = 0; i < 5000; ++i) {
    state = state * 1664525 + 1013904223;
    noise.push_back(static_cast<uint8_t>(state >> 24));
    text.push_back(static_cast<uint8_t>("disaggregated "[i % 14]));
  }
  for (const ByteCoder coder : {ByteCoder::kLz4, ByteCoder::kZstd, ByteCoder::kDeflate}) {
    std::vector<uint8_t> back;
    std::string error;
    for (const auto& bytes : {text, noise, std::vector<uint8_t>{}, std::vector<uint8_t>{7}}) {
      const auto frame = Compress(coder, bytes);
      EXPECT_LE(frame.size(), bytes.size() + 9);
      ASSERT_TRUE(Decompress(coder, frame, bytes.size(), back, error)) << error;
      EXPECT_EQ(back, bytes);
    }
    EXPECT_LT(Compress(coder, text).size(), text.size() / 10);
  }
}

TEST(Malicious_Frame, ThatClaimsToBeHuge_IsRefusedBeforeMemoryIsTaken) {
  std::vector<uint8_t> frame = Compress(ByteCoder::kZstd, std::vector<uint8_t>(1000, 1));
  const uint64_t huge = uint64_t{1} << 60;
  std::memcpy(frame.data() + 1, &huge, sizeof(huge));
  std::vector<uint8_t> bytes;
  std::string error;
  EXPECT_FALSE(Decompress(ByteCoder::kZstd, frame, 1000, bytes, error));
  EXPECT_THAT(error, HasSubstr("at most 1000"));
  EXPECT_LT(bytes.capacity(), 1u << 20);
}

TEST(Malicious_TopK, WithIndexesOutOfRangeOrOrder_IsRefused) {
  std::vector<uint8_t> good;
  std::string error;
  EncodeTopK(0.5, std::vector<float>{4, 3, 2, 1}, good);  // k = 2, indexes 0 and 1
  std::vector<float> back(4);
  ASSERT_TRUE(DecodeTopK(good, back, error));
  for (const auto& [at, index] : {std::pair{8, 4U}, {8, 0U}, {8, 0xFFFFFFFFU}, {4, 2U}, {0, 3U}}) {
    std::vector<uint8_t> bad = good;
    std::memcpy(bad.data() + at, &index, sizeof(index));
    EXPECT_FALSE(DecodeTopK(bad, back, error)) << at << " " << index;
  }
  std::vector<float> fewer(1);
  EXPECT_FALSE(DecodeTopK(good, fewer, error));
}

TEST(Malicious_Fp16, WithAnImpossibleScale_IsRefused) {
  std::vector<uint8_t> wire;
  std::string error;
  std::vector<float> back(1);
  EncodeFp16(std::vector<float>{1}, wire);
  for (const int32_t exponent : {127, -127, std::numeric_limits<int32_t>::min()}) {
    std::memcpy(wire.data(), &exponent, sizeof(exponent));
    EXPECT_FALSE(DecodeFp16(wire, back, error));
  }
}

}  // namespace
}  // namespace poolscope::trainer
