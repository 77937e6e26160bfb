// Hand-written backward passes against central finite differences, in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference-trainer/model/cpu_arithmetic.h"
#include "reference-trainer/model/gpt.h"

namespace poolscope::trainer {
namespace {

struct Case {
  GptShape shape;
  size_t batch;
};

double LossOf(Gpt<double>& gpt, const std::vector<double>& values,
              const std::vector<uint8_t>& tokens, const std::vector<uint8_t>& targets) {
  gpt.Forward(values, tokens, targets);
  return gpt.Loss() + gpt.BalanceLoss();
}

class Gradients : public testing::TestWithParam<Case> {};

TEST_P(Gradients, OfEveryTensor_EqualFiniteDifferences) {
  const auto& [shape, batch] = GetParam();
  CpuArithmetic<double> cpu;
  Gpt<double> gpt(shape, batch, cpu);
  std::vector<double> values = InitialParameters<double>(shape, 7);
  // Away from the symmetric start: gains, biases and all.
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] += 0.1 * std::sin(static_cast<double>(i) * 1.7);
  }
  std::vector<uint8_t> tokens(batch * shape.context), targets(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<uint8_t>(i * 37 + 11);
    targets[i] = static_cast<uint8_t>(i * 91 + 5);
  }
  std::vector<double> gradients(values.size(), 0);
  gpt.Forward(values, tokens, targets);
  gpt.Backward(values, gradients);

  constexpr double kStep = 1e-5;
  for (const Tensor& tensor : gpt.parameters().tensors()) {
    // Of each tensor the elements with the largest gradients and some others.
    std::vector<size_t> elements(tensor.size);
    for (size_t i = 0; i < tensor.size; ++i) elements[i] = tensor.offset + i;
    std::sort(elements.begin(), elements.end(),
              [&](size_t a, size_t b) { return std::abs(gradients[a]) > std::abs(gradients[b]); });
    for (size_t i = 0; i < tensor.size; i += i < 4 ? 1 : 1 + tensor.size / 4) {
      const size_t at = elements[i];
      const double kept = values[at];
      values[at] = kept + kStep;
      const double above = LossOf(gpt, values, tokens, targets);
      values[at] = kept - kStep;
      const double below = LossOf(gpt, values, tokens, targets);
      values[at] = kept;
      const double expected = (above - below) / (2 * kStep);
      EXPECT_NEAR(gradients[at], expected, 1e-8 + 1e-5 * std::abs(expected))
          << tensor.name << " element " << at - tensor.offset;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Gradients,
                         testing::Values(Case{{2, 12, 3, 5, false}, 2}, Case{{1, 8, 2, 4, true}, 3},
                                         Case{{0, 8, 1, 4, false}, 1}, Case{{3, 8, 1, 1, false}, 2},
                                         Case{{2, 12, 3, 5, false, 4, 2, 0.3, 0.5}, 2},
                                         Case{{1, 8, 2, 4, true, 3, 1, 0, 2}, 3},
                                         Case{{1, 8, 2, 4, false, 2, 2, 0, 0.1}, 1}));

TEST(Gradients, OfTwoMicroBatches_AreSummed) {
  const GptShape shape{1, 8, 2, 4, false};
  CpuArithmetic<double> cpu;
  Gpt<double> gpt(shape, 1, cpu);
  const std::vector<double> values = InitialParameters<double>(shape, 3);
  const std::vector<uint8_t> first = {1, 2, 3, 4}, second = {9, 8, 7, 6}, targets = {2, 3, 4, 5};
  std::vector<double> a(values.size(), 0), b(values.size(), 0), both(values.size(), 0);
  gpt.Forward(values, first, targets);
  gpt.Backward(values, a);
  gpt.Forward(values, second, targets);
  gpt.Backward(values, b);
  gpt.Forward(values, first, targets);
  gpt.Backward(values, both);
  gpt.Forward(values, second, targets);
  gpt.Backward(values, both);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(both[i], a[i] + b[i], 1e-12);
}

TEST(Gpt, UntrainedOnUniformBytes_HasAboutTheEntropyOfAByte) {
  const GptShape shape{2, 16, 2, 8, true};
  CpuArithmetic<double> cpu;
  Gpt<double> gpt(shape, 4, cpu);
  const std::vector<double> values = InitialParameters<double>(shape, 1);
  std::vector<uint8_t> tokens(32), targets(32);
  for (size_t i = 0; i < 32; ++i) targets[i] = static_cast<uint8_t>(i * 8), tokens[i] = targets[i];
  EXPECT_NEAR(LossOf(gpt, values, tokens, targets), std::log(256.0), 0.5);
}

TEST(Gpt, LaterByte_DoesNotChangeEarlierPredictions) {
  const GptShape shape{2, 16, 2, 8, false};
  const std::vector<double> values = InitialParameters<double>(shape, 5);
  CpuArithmetic<double> cpu;
  Gpt<double> gpt(shape, 1, cpu);
  const std::vector<uint8_t> targets = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<uint8_t> tokens = {10, 11, 12, 13, 14, 15, 16, 17};
  std::vector<uint8_t> changed = tokens;
  changed[7] = 99;
  std::vector<uint8_t> other_target = targets;
  other_target[0] = 200;
  // The last token changes; the difference that the first target makes must not.
  const double a = LossOf(gpt, values, tokens, other_target) - LossOf(gpt, values, tokens, targets);
  const double b =
      LossOf(gpt, values, changed, other_target) - LossOf(gpt, values, changed, targets);
  EXPECT_NEAR(a, b, 1e-12);
  EXPECT_GT(std::abs(a), 1e-6);
}

}  // namespace
}  // namespace poolscope::trainer
