#include "reference-trainer/cost_model.h"

#include <gtest/gtest.h>

namespace poolscope::trainer {
namespace {

const DeviceProfile& A100() { return *FindDeviceProfile("a100"); }

TEST(CostModel, ForwardFlops_AreThoseOfMegatronsFormula) {
  // Narayanan et al. 2021, appendix: 96 B s l h² (1 + s/6h + V/16lh) for four passes of one each;
  // the 39.1 G model of table 1 has l = 48, h = 8192, s = 2048, V = 51200.
  const double l = 48, h = 8192, s = 2048, vocabulary = 51200;
  const double megatron = 24 * s * l * h * h * (1 + s / (6 * h) + vocabulary / (16 * l * h));
  const CostModel cost({39.1e9, 48, 8192, 2048, 1}, Precision::kBf16);
  EXPECT_NEAR(cost.ForwardFlops() / megatron, 1, 0.01);
}

TEST(CostModel, Passes_TakeTheirFlopsByRatePlusLaunches) {
  const CostModel cost({1.3e9, 24, 2048, 2048, 1}, Precision::kBf16);
  // (2 × 1.3e9 × 2048 + 4 × 24 × 2048² × 2048) ÷ (0.45 × 312e12) + 12 × 24 × 0.9 µs
  EXPECT_NEAR(cost.ForwardSeconds(A100()), 0.0440586, 1e-6);
  EXPECT_NEAR(cost.BackwardSeconds(A100()), 0.0881172, 2e-6);
  const CostModel twice({1.3e9, 24, 2048, 2048, 2}, Precision::kBf16);
  EXPECT_NEAR(twice.ForwardFlops() / cost.ForwardFlops(), 2, 1e-9);
}

TEST(CostModel, Optimizer_MovesTwentyEightBytesAParameter) {
  const CostModel cost({1e9, 24, 2048, 2048, 1}, Precision::kBf16);
  EXPECT_NEAR(cost.UpdateSeconds(A100()), 28e9 / (0.85 * 2039e9), 1e-5);
}

TEST(CostModel, Fp32_UsesTheSlowerUnits) {
  const EmulatedModel model{1.3e9, 24, 2048, 2048, 1};
  const double bf16 = CostModel(model, Precision::kBf16).ForwardSeconds(A100());
  const double fp32 = CostModel(model, Precision::kFp32).ForwardSeconds(A100());
  EXPECT_NEAR(fp32 / bf16, 312 / 19.5, 0.1);
}

TEST(Shapes, AreThePublishedOnesNearestInSize) {
  const Shape gpt3 = ShapeOfParameters(175e9), seventy = ShapeOfParameters(70e9);
  EXPECT_EQ(gpt3.layers, 96u);
  EXPECT_EQ(gpt3.width, 12288u);
  EXPECT_EQ(seventy.layers, 60u);
  EXPECT_EQ(seventy.width, 10240u);
  EXPECT_EQ(ShapeOfParameters(1).layers, 12u);
}

TEST(Shapes, HaveAboutTheParametersThatTheyArePublishedWith) {
  for (const double parameters : {125e6, 350e6, 1.3e9, 7.5e9, 39.1e9, 175e9, 529.6e9}) {
    const Shape shape = ShapeOfParameters(parameters);
    const auto width = static_cast<double>(shape.width);
    // 12 × width² a block, and the embedding of 51200 tokens.
    const double counted = 12.0 * static_cast<double>(shape.layers) * width * width + 51200 * width;
    EXPECT_NEAR(counted / parameters, 1, 0.08) << parameters;
  }
}

}  // namespace
}  // namespace poolscope::trainer
