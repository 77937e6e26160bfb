#include "reference-trainer/data.h"

#include <gtest/gtest.h>

#include <cmath>

namespace poolscope::trainer {
namespace {

TEST(Corpus, UnigramEntropyOfFourEqualBytes_IsLogFour) {
  EXPECT_NEAR(Corpus("", {1, 2, 3, 4, 1, 2, 3, 4}).UnigramEntropy(), std::log(4.0), 1e-12);
  EXPECT_EQ(Corpus("", {7, 7, 7}).UnigramEntropy(), 0);
}

TEST(Corpus, MicroBatch_HasTheFollowingByteAsTarget) {
  std::vector<uint8_t> bytes(200);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
  const Corpus corpus("", bytes);
  for (uint64_t index = 0; index < 50; ++index) {
    const auto [tokens, targets, weight] = corpus.MicroBatch(1, index, 3, 8);
    EXPECT_EQ(weight, 1);
    ASSERT_EQ(tokens.size(), 24u);
    for (size_t i = 0; i < 24; ++i) EXPECT_EQ(targets[i], tokens[i] + 1);
    for (size_t i = 1; i < 8; ++i) EXPECT_EQ(tokens[i], tokens[i - 1] + 1);
  }
}

TEST(Corpus, MicroBatch_DependsOnSeedAndIndexAlone) {
  std::vector<uint8_t> bytes(5000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * i);
  const Corpus corpus("", bytes);
  const std::vector<uint8_t> a = corpus.MicroBatch(1, 5, 4, 16).tokens;
  EXPECT_EQ(a, corpus.MicroBatch(1, 5, 4, 16).tokens);
  EXPECT_NE(a, corpus.MicroBatch(1, 6, 4, 16).tokens);
  EXPECT_NE(a, corpus.MicroBatch(2, 5, 4, 16).tokens);
}

}  // namespace
}  // namespace poolscope::trainer
