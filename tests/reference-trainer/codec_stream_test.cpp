// Streams of messages: what error feedback and deltas do over many, and hostile ones.
#include "reference-trainer/codec_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "reference-trainer/crc32c.h"

namespace poolscope::trainer {
namespace {

using ::testing::HasSubstr;

constexpr size_t kCount = 1000;

const Codec kTopK{ValueCoder::kTopK, ByteCoder::kNone, 0.1};
const Codec kOneBit{ValueCoder::kOneBit};
const Codec kDelta{ValueCoder::kOneBitDelta};

std::vector<Codec> All() {
  std::vector<Codec> codecs;
  for (const ByteCoder bytes :
       {ByteCoder::kNone, ByteCoder::kLz4, ByteCoder::kZstd, ByteCoder::kDeflate}) {
    for (const ValueCoder values :
         {ValueCoder::kFloat32, ValueCoder::kBf16, ValueCoder::kFp16, ValueCoder::kTopK,
          ValueCoder::kOneBit, ValueCoder::kOneBitDelta}) {
      codecs.push_back({values, bytes, 0.1});
    }
  }
  return codecs;
}

// Gradients: a mean that stays, and noise that is as large.
std::vector<std::vector<float>> Gradients(size_t messages) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> mean(kCount);
  for (float& each : mean) each = normal(random);
  std::vector<std::vector<float>> gradients(messages, mean);
  for (auto& message : gradients) {
    for (float& each : message) each += normal(random);
  }
  return gradients;
}

std::vector<float> Receive(Decoder& decoder, const Block& block) {
  std::vector<float> values;
  std::string error;
  EXPECT_TRUE(decoder.Decode(block, kCount, values, error)) << error;
  return values;
}

double Distance(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    squares += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(squares / norm);
}

// |Σ decoded − Σ raw| ÷ |Σ raw| after so many messages, with one stream or one for each message.
double ErrorOfSum(const Codec& codec, size_t messages, bool one_stream) {
  std::vector<double> raw(kCount), decoded(kCount);
  Encoder stream(codec);
  Decoder decoder;
  for (const auto& gradient : Gradients(messages)) {
    const auto values =
        Receive(decoder, one_stream ? stream.Encode(gradient) : Encoder(codec).Encode(gradient));
    for (size_t i = 0; i < kCount; ++i) {
      raw[i] += gradient[i];
      decoded[i] += values[i];
    }
  }
  return Distance(decoded, raw);
}

TEST(ErrorFeedback, SumOfDecodedMessages_ConvergesToTheSumOfRawOnes) {
  for (const Codec& codec : {kTopK, kOneBit, Codec{ValueCoder::kOneBit, ByteCoder::kZstd}}) {
    const double early = ErrorOfSum(codec, 100, true), late = ErrorOfSum(codec, 800, true);
    // What is missing is one residual, however many messages went: as 1 ÷ messages.
    EXPECT_LT(late, early / 4) << CodecName(codec);
    EXPECT_LT(late, 0.05) << CodecName(codec);
    EXPECT_GT(ErrorOfSum(codec, 800, false), 0.3) << CodecName(codec);
  }
}

TEST(ErrorFeedback, OfOneStream_DoesNotReachAnother) {
  const auto gradients = Gradients(2);
  Encoder one(kTopK), other(kTopK);
  one.Encode(gradients[0]);
  EXPECT_NE(one.Encode(gradients[1]).bytes, other.Encode(gradients[1]).bytes);
}

TEST(Delta, OfWeightsThatStay_BringsTheReceiverToThem) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> weights(kCount);
  for (float& each : weights) each = normal(random);
  Encoder encoder(kDelta);
  Decoder decoder;
  const Block full = encoder.Encode(weights);
  EXPECT_EQ(Receive(decoder, full), weights);  // the first message is complete
  for (float& each : weights) each += 0.1F * normal(random);
  double first = 0, last = 0;
  for (int i = 0; i < 40; ++i) {
    const Block block = encoder.Encode(weights);
    EXPECT_LT(block.bytes.size() * 20, full.bytes.size());
    const auto held = Receive(decoder, block);
    last = Distance({held.begin(), held.end()}, {weights.begin(), weights.end()});
    if (i == 0) first = last;
  }
  EXPECT_GT(first, 0.02);
  EXPECT_LT(last, first / 10);
}

TEST(Delta, ThatSkipsOrRepeatsAMessage_IsRefused) {
  const auto weights = Gradients(4);
  Encoder encoder(kDelta);
  std::vector<Block> blocks;
  for (const auto& each : weights) blocks.push_back(encoder.Encode(each));
  std::vector<float> values;
  std::string error;
  Decoder fresh;
  EXPECT_FALSE(fresh.Decode(blocks[1], kCount, values, error));
  EXPECT_THAT(error, HasSubstr("frame 1 follows none"));
  Decoder decoder;
  Receive(decoder, blocks[0]);
  Receive(decoder, blocks[1]);
  EXPECT_FALSE(decoder.Decode(blocks[3], kCount, values, error));
  EXPECT_THAT(error, HasSubstr("frame 3 follows frame 1"));
  EXPECT_FALSE(decoder.Decode(blocks[1], kCount, values, error));
  Receive(decoder, blocks[2]);  // the refused ones changed nothing
  Receive(decoder, blocks[0]);  // a complete one always can come
}

TEST(Stream, OfALosslessCodec_GivesTheVeryBits) {
  std::vector<float> values = Gradients(1)[0];
  values[7] = std::numeric_limits<float>::infinity();
  values[8] = -0.0F;
  for (const Codec& codec : All()) {
    if (!codec.lossless()) continue;
    Encoder encoder(codec);
    Decoder decoder;
    EXPECT_EQ(Receive(decoder, encoder.Encode(values)), values) << CodecName(codec);
  }
}

TEST(Stream, WithoutValues_HasNoBytes) {
  for (const Codec& codec : All()) {
    Encoder encoder(codec);
    Decoder decoder;
    const Block block = encoder.Encode({});
    EXPECT_TRUE(block.bytes.empty());
    std::vector<float> values(3);
    std::string error;
    EXPECT_TRUE(decoder.Decode(block, 0, values, error)) << error;
    EXPECT_TRUE(values.empty());
  }
}

TEST(Malicious_Block, TruncatedAnywhereOrOfAnotherSize_IsAnErrorInEveryCodec) {
  const auto gradients = Gradients(2);
  for (const Codec& codec : All()) {
    Encoder encoder(codec);
    const Block first = encoder.Encode(gradients[0]), good = encoder.Encode(gradients[1]);
    std::vector<float> values;
    std::string error;
    const auto refused = [&](Block block, uint64_t expected) {
      block.crc32c = Crc32c(block.bytes);  // a sender that lies, not a wire that damages
      Decoder decoder;
      Receive(decoder, first);
      error.clear();
      return !decoder.Decode(block, expected, values, error) && !error.empty();
    };
    for (size_t size = 0; size < good.bytes.size(); size += 1 + size / 16) {
      Block block = good;
      block.bytes.resize(size);
      EXPECT_TRUE(refused(block, kCount)) << CodecName(codec) << ", " << size << " bytes";
    }
    Block longer = good;
    longer.bytes.push_back(0);
    EXPECT_TRUE(refused(longer, kCount)) << CodecName(codec);
    EXPECT_TRUE(refused(good, kCount - 1)) << CodecName(codec);
    Block fewer = good;
    fewer.count = kCount / 2;
    EXPECT_TRUE(refused(fewer, kCount)) << CodecName(codec);
    EXPECT_TRUE(refused(fewer, kCount / 2)) << CodecName(codec);
  }
}

TEST(Malicious_Block, WithAnyByteChanged_NeverCrashesAndHasTheExpectedSize) {
  const auto gradients = Gradients(1);
  std::mt19937 random(11);
  for (const Codec& codec : All()) {
    Block block = Encoder(codec).Encode(gradients[0]);
    for (int i = 0; i < 200; ++i) {
      const size_t at =
          i < 20 ? static_cast<size_t>(i) % block.bytes.size() : random() % block.bytes.size();
      const uint8_t before = block.bytes[at];
      block.bytes[at] = static_cast<uint8_t>(random());
      block.crc32c = Crc32c(block.bytes);
      std::vector<float> values;
      std::string error;
      Decoder decoder;
      if (decoder.Decode(block, kCount, values, error)) {
        EXPECT_EQ(values.size(), kCount);
      } else {
        EXPECT_FALSE(error.empty());
      }
      block.bytes[at] = before;
    }
  }
}

}  // namespace
}  // namespace poolscope::trainer
