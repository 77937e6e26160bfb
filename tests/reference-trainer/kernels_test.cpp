#include "reference-trainer/model/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace poolscope::trainer {
namespace {

TEST(Kernels, Linear_IsRowsTimesWeightsPlusBias) {
  const std::vector<float> x = {1, 2, 3, 4}, w = {1, 0, 0, 1, 1, 1}, bias = {10, 20, 30};
  std::vector<float> y(6);
  Linear<float>(2, 2, 3, x.data(), w.data(), bias.data(), y.data());
  EXPECT_EQ(y, (std::vector<float>{11, 22, 33, 13, 24, 37}));
}

TEST(Kernels, LayerNorm_OfARow_HasMeanZeroAndDeviationOne) {
  const std::vector<double> x = {1, 2, 3, 6}, gain(4, 1), bias(4, 0);
  std::vector<double> y(4), mean(1), rstd(1);
  LayerNorm<double>(1, 4, x.data(), gain.data(), bias.data(), y.data(), mean.data(), rstd.data());
  EXPECT_DOUBLE_EQ(mean[0], 3);
  const double deviation = std::sqrt((4 + 1 + 0 + 9) / 4.0 + 1e-5);
  EXPECT_NEAR(y[0], -2 / deviation, 1e-12);
  EXPECT_NEAR(y[3], 3 / deviation, 1e-12);
}

TEST(Kernels, Gelu_HasTheValuesOfItsPaper) {
  const std::vector<double> x = {0, 1, -1, 3};
  std::vector<double> y(4);
  Gelu<double>(4, x.data(), y.data());
  // x Φ(x) of the normal distribution, which the tanh form meets to 1e-3.
  EXPECT_NEAR(y[0], 0, 1e-12);
  EXPECT_NEAR(y[1], 0.84134, 1e-3);
  EXPECT_NEAR(y[2], -0.15866, 1e-3);
  EXPECT_NEAR(y[3], 2.99595, 1e-3);
}

TEST(Kernels, CrossEntropyOfEqualLogits_IsLogOfTheClasses) {
  std::vector<float> logits(2 * 256, 3), losses(2);
  const std::vector<uint8_t> targets = {0, 255};
  SoftmaxCrossEntropy<float>(2, 256, logits.data(), targets.data(), losses.data());
  for (float each : losses) EXPECT_NEAR(each, std::log(256.0), 1e-5);
}

TEST(Kernels, GridSums_DoNotDependOnTheOrder) {
  std::vector<float> parts[3];
  for (int p = 0; p < 3; ++p) {
    for (int i = 0; i < 1000; ++i) {
      parts[p].push_back(0.01F * std::sin(static_cast<float>(i * 3 + p) * 1.3F));
    }
  }
  std::vector<float> forward(1000, 0), backward(1000, 0);
  for (int p = 0; p < 3; ++p) AddOnGrid(1000, parts[p].data(), forward.data());
  for (int p = 2; p >= 0; --p) AddOnGrid(1000, parts[p].data(), backward.data());
  EXPECT_EQ(forward, backward);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_NEAR(forward[i], parts[0][i] + parts[1][i] + parts[2][i], 3 * 0x1p-29 + 1e-8);
  }
}

}  // namespace
}  // namespace poolscope::trainer
