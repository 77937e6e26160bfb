#include "reference-trainer/options.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/reference-trainer/parse_options.h"

namespace poolscope::trainer {
namespace {

TEST(Options, OfTheDemo_AreUnderstood) {
  const Options options = Good(
      "--device emulated --math tiny --mode disaggregated --async --compute-workers 4 "
      "--update-workers 1 --forward-ms 15 --backward-ms 25 --update-ms 20 --gradient-bytes 64M "
      "--weight-bytes 64M --gradients-bandwidth 2G --weights-bandwidth 20G "
      "--weights-latency-ms 1.5 --micro-batches 8 --steps 150 --gradients-codec bf16 "
      "--gradients-depth 3 --stale drop --lag-bound 2");
  EXPECT_EQ(options.mode, Mode::kAsync);
  EXPECT_TRUE(options.devices.emulated());
  EXPECT_TRUE(options.math);
  EXPECT_EQ(options.compute_workers, 4u);
  EXPECT_DOUBLE_EQ(options.backward_seconds, 0.025);
  EXPECT_EQ(options.gradient_bytes, 64'000'000u);
  EXPECT_DOUBLE_EQ(options.gradients.shape.bytes_per_second, 2e9);
  EXPECT_DOUBLE_EQ(options.weights.shape.bytes_per_second, 20e9);
  EXPECT_EQ(options.weights.shape.latency_ns, 1'500'000);
  EXPECT_EQ(options.gradients.codec, Codec::kBf16);
  EXPECT_EQ(options.weights.codec, Codec::kNone);
  EXPECT_EQ(options.gradients.shape.depth, 3u);
  EXPECT_EQ(options.stale, Stale::kDrop);
  EXPECT_EQ(options.lag_bound, 2u);
}

TEST(Options, ByDefault_AreSynchronousOnTheCpu) {
  const Options options = Good("");
  EXPECT_EQ(options.mode, Mode::kSync);
  EXPECT_FALSE(options.devices.emulated());
  EXPECT_EQ(options.gradients.shape.bytes_per_second, 0);
}

TEST(Options, Wrong_ExitWithTwoAndOneLine) {
  for (const char* line : {"--bogus",
                           "surplus",
                           "--steps 0",
                           "--steps x",
                           "--mode half",
                           "--stale maybe",
                           "--gradients-bandwidth 2X",
                           "--gradients-bandwidth -1",
                           "--gradient-bytes 1M",
                           "--forward-ms 5",
                           "--sync --async",
                           "--mode monolithic --async",
                           "--heads 3 --width 64",
                           "--device emulated --weight-bytes 9e99",
                           "--gradients-codec zip",
                           "--compute-workers 0",
                           "--data",
                           "--gradients-loss 1.1",
                           "--weights-delay-ms -1",
                           "--block-bytes 64k",
                           "--block-bytes 0 --gradients-loss 0.1",
                           "--retransmit-limit 3",
                           "--retransmit-timeout-ms 5",
                           "--gradients-reliability best-effort",
                           "--async --gradients-reliability best-effort",
                           "--weights-reliability perhaps",
                           "--mode monolithic --gradients-loss 0.1",
                           "--weights-codec 1bit-delta --weights-lanes 2",
                           "--weights-codec 1bit-delta --weights-reliability best-effort"}) {
    const auto parsed = Parse(line);
    const Exit* exit = std::get_if<Exit>(&parsed);
    ASSERT_NE(exit, nullptr) << line;
    EXPECT_EQ(exit->code, 2) << line;
    EXPECT_EQ(std::count(exit->text.begin(), exit->text.end(), '\n'), 1) << exit->text;
    EXPECT_EQ(exit->text.back(), '\n');
  }
}

TEST(Options, OfABadNetwork_AreUnderstood) {
  const Options options = Good(
      "--weights-codec 1bit-delta --weights-lanes 2 --weights-loss 0.25 --weights-delay-ms 1.5 "
      "--weights-latency-ms 2 --gradients-reliability reliable --block-bytes 64k "
      "--retransmit-limit 7");
  const auto rules = [&](const WireOptions& wire, const LinkOptions& link) {
    return RulesOf(options.reliability, wire, link.shape, 1);
  };
  const auto weights = rules(options.reliability.weights, options.weights);
  EXPECT_EQ(weights->faults.loss, 0.25);
  EXPECT_EQ(weights->lanes, 2u);
  EXPECT_EQ(weights->block_bytes, 64'000u);
  EXPECT_EQ(weights->patience.timeout_ns, 24'000'000);  // 10 ms, 4 × (2 ms + 1.5 ms)
  EXPECT_EQ(weights->patience.limit, 7u);
  EXPECT_TRUE(rules(options.reliability.gradients, options.gradients));
  EXPECT_FALSE(rules(Good("").reliability.gradients, options.gradients));
}

TEST(Options, Help_ExitsWithZero) {
  const auto parsed = Parse("--help");
  const Exit* exit = std::get_if<Exit>(&parsed);
  ASSERT_NE(exit, nullptr);
  EXPECT_EQ(exit->code, 0);
  EXPECT_NE(exit->text.find("--gradients-bandwidth"), std::string::npos);
}

TEST(Options, Suffixes_ArePowersOfAThousand) {
  EXPECT_EQ(ParseSuffixed("5"), 5);
  EXPECT_EQ(ParseSuffixed("1.5k"), 1500);
  EXPECT_EQ(ParseSuffixed("64M"), 64e6);
  EXPECT_EQ(ParseSuffixed("2G"), 2e9);
  for (const char* text : {"", "M", "2T", "2MM", "-1", "nan", "inf", "1 M"}) {
    EXPECT_FALSE(ParseSuffixed(text)) << text;
  }
}

}  // namespace
}  // namespace poolscope::trainer
