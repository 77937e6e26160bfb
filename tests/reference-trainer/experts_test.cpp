#include "reference-trainer/model/experts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "reference-trainer/model/cpu_arithmetic.h"
#include "reference-trainer/model/gpt.h"
#include "reference-trainer/model/kernels.h"

namespace poolscope::trainer {
namespace {

uint64_t Sum(std::span<const uint64_t> load) {
  return std::accumulate(load.begin(), load.end(), uint64_t{0});
}

std::vector<double> Waves(size_t count, double scale) {
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = scale * std::sin(static_cast<double>(i) * 1.7);
  return values;
}

// One layer's experts on waves, and what they need.
struct Layer {
  Layer(const GptShape& of, size_t count)
      : shape(of),
        rows(count),
        values(InitialParameters<double>(of, 5)),
        x(Waves(count * of.width, 1)),
        y(x.size()),
        experts(of, parameters, count) {}

  void Forward() {
    experts.Route(values.data(), x.data());
    experts.Forward(values.data(), x.data(), y.data());
  }

  const GptShape shape;
  const size_t rows;
  const Parameters parameters{shape};
  std::vector<double> values, x, y;
  Experts<double> experts;
};

TEST(Experts, Output_IsThePaperSumOverTheLargestOfTheSoftmax) {
  Layer layer({1, 6, 1, 5, false, 4, 2, 0.5, 0.01}, 5);
  layer.Forward();
  const Parameters& at = layer.parameters;
  const size_t width = 6, wide = 24;
  for (size_t row = 0; row < 5; ++row) {
    const double* x = layer.x.data() + row * width;
    std::vector<double> p(4);
    double total = 0;
    for (size_t e = 0; e < 4; ++e) {
      double logit = -0.5 * std::log(1.0 + static_cast<double>(e));
      for (size_t i = 0; i < width; ++i)
        logit += layer.values[at.router_weight + e * width + i] * x[i];
      total += p[e] = std::exp(logit);
    }
    std::vector<double> expected(width, 0);
    for (size_t e = 0; e < 4; ++e) {
      size_t larger = 0;
      for (const double other : p) larger += other > p[e] ? 1 : 0;
      if (larger >= 2) continue;
      const double* w = layer.values.data() + e * at.expert_stride;
      std::vector<double> hidden(wide), active(wide), out(width);
      Linear(1, width, wide, x, w + at.expand_weight, w + at.expand_bias, hidden.data());
      Gelu(wide, hidden.data(), active.data());
      Linear(1, wide, width, active.data(), w + at.contract_weight, w + at.contract_bias,
             out.data());
      for (size_t i = 0; i < width; ++i) expected[i] += p[e] / total * out[i];
    }
    for (size_t i = 0; i < width; ++i) EXPECT_NEAR(layer.y[row * width + i], expected[i], 1e-12);
  }
}

TEST(Experts, Loads_AddUpToTokensTimesChoices) {
  for (const size_t k : {1, 2, 4}) {
    Layer layer({1, 8, 1, 1, false, 4, k, 0, 0.01}, 37);
    layer.Forward();
    EXPECT_EQ(Sum(layer.experts.load()), 37 * k);
    EXPECT_EQ(Sum(DrawExpertLoad(layer.shape, 500, 3)), 500 * k);
  }
}

TEST(Experts, Skew_SendsMostTokensToTheFirst) {
  Layer even({1, 8, 1, 1, false, 4, 1, 0, 0.01}, 400),
      skewed({1, 8, 1, 1, false, 4, 1, 3, 0.01}, 400);
  even.Forward();
  skewed.Forward();
  EXPECT_LT(even.experts.load()[0], 250u);
  EXPECT_GT(skewed.experts.load()[0], 350u);
  // Drawn with the same skew, the share of expert e is (1 + e)^−3 ÷ their sum.
  const auto drawn = DrawExpertLoad(skewed.shape, 2000, 1);
  EXPECT_NEAR(static_cast<double>(drawn[0]) / 2000, 1 / (1 + 1 / 8.0 + 1 / 27.0 + 1 / 64.0), 0.04);
}

TEST(Experts, BalanceLoss_IsLeastWhereTheLoadIsEven) {
  // With equal probabilities it is balance × experts × Σ f_e ÷ experts = balance.
  Layer layer({1, 8, 1, 1, false, 4, 2, 0, 0.25}, 64);
  std::fill(layer.values.begin(), layer.values.end(), 0);
  layer.Forward();
  EXPECT_NEAR(layer.experts.balance_loss(), 0.25, 1e-12);
  Layer skewed({1, 8, 1, 1, false, 4, 2, 3, 0.25}, 64);
  std::fill(skewed.values.begin(), skewed.values.end(), 0);
  skewed.Forward();
  EXPECT_GT(skewed.experts.balance_loss(), 0.4);
}

TEST(Experts, GroupsOfParameters_CoverThemWithoutGaps) {
  const Parameters parameters(GptShape{2, 8, 2, 4, true, 3, 1});
  size_t end = 0;
  std::vector<std::string> names;
  for (const ParameterGroup& group : parameters.groups()) {
    EXPECT_EQ(group.begin, end);
    end = group.end;
    names.push_back(group.name);
  }
  EXPECT_EQ(end, parameters.size());
  EXPECT_EQ(names, (std::vector<std::string>{
                       "embedding", "layer0", "layer0.expert0", "layer0.expert1", "layer0.expert2",
                       "layer1", "layer1.expert0", "layer1.expert1", "layer1.expert2", "head"}));
}

TEST(Gpt, StageByStage_ReadsOnlyItsOwnGroups) {
  // Everything else is NaN while a stage runs; the result is the one of a whole pass.
  const GptShape shape{2, 8, 2, 4, false, 3, 2};
  const std::vector<double> values = InitialParameters<double>(shape, 3);
  const std::vector<uint8_t> tokens = {1, 2, 3, 4}, targets = {5, 6, 7, 8};
  CpuArithmetic<double> cpu;
  Gpt<double> whole(shape, 1, cpu), staged(shape, 1, cpu);
  std::vector<double> expected(values.size(), 0), gradients(values.size(), 0);
  whole.Forward(values, tokens, targets);
  whole.Backward(values, expected);

  const std::vector<ParameterGroup>& groups = staged.parameters().groups();
  const auto only = [&](const Stage& stage) {
    std::vector<double> visible(values.size(), std::nan(""));
    for (const ParameterGroup& group : groups) {
      const std::string layer = "layer" + std::to_string(stage.layer);
      bool reads = false;
      switch (stage.kind) {
        case Stage::Kind::kEmbedding:
          reads = group.name == "embedding";
          break;
        case Stage::Kind::kLayer:
          reads = group.name == layer;
          break;
        case Stage::Kind::kExperts:
          for (size_t e = 0; e < 3; ++e) {
            reads |= group.name == layer + ".expert" + std::to_string(e) &&
                     staged.ExpertLoad(stage.layer)[e] > 0;
          }
          break;
        case Stage::Kind::kHead:
          reads = group.name == "head" || group.name == "embedding";
          break;
      }
      if (!reads) continue;
      std::copy(values.begin() + static_cast<std::ptrdiff_t>(group.begin),
                values.begin() + static_cast<std::ptrdiff_t>(group.end),
                visible.begin() + static_cast<std::ptrdiff_t>(group.begin));
    }
    return visible;
  };
  staged.Begin(tokens, targets);
  const std::vector<Stage>& stages = staged.stages();
  for (size_t i = 0; i < stages.size(); ++i) staged.ForwardStage(i, only(stages[i]));
  EXPECT_EQ(staged.Loss(), whole.Loss());
  for (size_t i = stages.size(); i-- > 0;) {
    staged.BackwardStage(i, only(stages[i]), gradients);
  }
  EXPECT_EQ(gradients, expected);
}

}  // namespace
}  // namespace poolscope::trainer
