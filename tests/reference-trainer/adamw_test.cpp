#include "reference-trainer/model/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reference-trainer/model/cpu_shard.h"

namespace poolscope::trainer {
namespace {

constexpr GptShape kShape{1, 8, 2, 4, false};

TEST(AdamW, FirstUpdate_MovesEachValueByTheWarmedUpRate) {
  const Parameters parameters(kShape);
  AdamW::Rates rates;
  rates.learning_rate = 0.1;
  rates.weight_decay = 0;
  const AdamW optimizer(parameters, {{0, parameters.size()}}, rates);
  std::vector<float> values(parameters.size(), 1), gradients(parameters.size());
  std::vector<float> first(parameters.size(), 0), second(parameters.size(), 0);
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i] = i % 2 ? 0.3F : -5.0F;
  optimizer.Update({0, values, first, second, gradients}, 1, 1);
  // Both moments' corrections leave gradient ÷ |gradient|; the first of ten warm-up updates is 0.1.
  EXPECT_NEAR(values[0], 1.01, 1e-6);
  EXPECT_NEAR(values[1], 0.99, 1e-6);
}

TEST(AdamW, Decay_IsOnMatricesOnly) {
  const Parameters parameters(kShape);
  AdamW::Rates rates;
  rates.learning_rate = 1;
  rates.weight_decay = 0.5;
  const AdamW optimizer(parameters, {{0, parameters.size()}}, rates);
  std::vector<float> values(parameters.size(), 1), zero(parameters.size(), 0);
  std::vector<float> first = zero, second = zero;
  optimizer.Update({0, values, first, second, zero}, 1, 1);
  for (const Tensor& tensor : parameters.tensors()) {
    EXPECT_FLOAT_EQ(values[tensor.offset], tensor.matrix ? 0.95F : 1.0F) << tensor.name;
  }
}

TEST(Shards, OfAnyCount_UpdateLikeTheWhole) {
  const size_t size = Parameters(kShape).size();
  std::vector<float> gradients(size);
  for (size_t i = 0; i < size; ++i) gradients[i] = std::sin(static_cast<float>(i));
  CpuShard whole(kShape, {{0, size}}, 9, {});
  const double whole_squares = [&] {
    whole.Add(gradients);
    return whole.Update(0.25);
  }();
  double squares = 0;
  size_t covered = 0;
  for (size_t index = 0; index < 3; ++index) {
    const Part part = PartOf(size, index, 3);
    CpuShard shard(kShape, {part}, 9, {});
    EXPECT_EQ(part.begin, covered);
    covered = part.end;
    shard.Add(std::span<const float>(gradients).subspan(part.begin, part.end - part.begin));
    squares += shard.Update(0.25);
    for (size_t i = part.begin; i < part.end; ++i) {
      EXPECT_EQ(shard.values()[i - part.begin], whole.values()[i]);
    }
  }
  EXPECT_EQ(covered, size);
  EXPECT_NEAR(squares, whole_squares, 1e-9 * whole_squares);
}

}  // namespace
}  // namespace poolscope::trainer
