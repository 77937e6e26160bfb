// The kernels of the cuda device as g++ compiles them, on the host: see tests/support/host_grid.h.
#include <gtest/gtest.h>

#include <cstring>

#include "reference-trainer/cuda/grid_arithmetic.h"
#include "reference-trainer/data.h"
#include "reference-trainer/model/cpu_arithmetic.h"
#include "reference-trainer/model/gpt.h"
#include "tests/support/arithmetic_twin.h"
#include "tests/support/host_grid.h"

namespace poolscope::trainer::cuda {
namespace {

// One element of everything; less than a tile; more than one tile, block and row of a block.
const TwinShape kShapes[] = {{1, 1, 1, 1, 1}, {2, 5, 12, 3, 7}, {3, 22, 150, 2, 70}};

template <typename T>
class HostArithmetic {
 public:
  HostArithmetic(Precision precision, bool reversed)
      : grid_(reversed), arithmetic_(grid_, precision) {}
  Arithmetic<T>& operator*() { return arithmetic_; }

 private:
  HostGrid grid_;
  GridArithmetic<T, HostGrid> arithmetic_;
};

template <typename T>
void Compare(const TwinCase<T>& twin, Precision precision, bool reversed) {
  for (const TwinShape& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << "width " << shape.width);
    HostArithmetic<T> host(precision, reversed);
    twin.run(*host, precision == Precision::kBf16, shape);
  }
}

class CudaKernels : public testing::TestWithParam<TwinCase<float>> {};
class CudaKernelsInDouble : public testing::TestWithParam<TwinCase<double>> {};

TEST_P(CudaKernels, OnTheHost_EqualTheirTwins) { Compare(GetParam(), Precision::kFp32, false); }
TEST_P(CudaKernels, WithThreadsInReverse_EqualTheirTwins) {
  Compare(GetParam(), Precision::kFp32, true);
}
TEST_P(CudaKernelsInDouble, OnTheHost_EqualTheirTwins) {
  Compare(GetParam(), Precision::kFp32, false);
}

const auto kName = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Each, CudaKernels, testing::ValuesIn(TwinCases<float>()), kName);
INSTANTIATE_TEST_SUITE_P(Each, CudaKernelsInDouble, testing::ValuesIn(TwinCases<double>()), kName);

TEST(CudaProducts, OfBf16_EqualTheirTwins) {
  for (const TwinCase<float>& twin : TwinCases<float>()) {
    if (twin.name == "Linear") Compare(twin, Precision::kBf16, false);
  }
}

// Loss and gradients of a whole model on a made-up micro-batch.
struct Pass {
  double loss;
  std::vector<float> gradients;
};
Pass PassOf(Arithmetic<float>& arithmetic, bool untied_head) {
  const GptShape shape{2, 24, 3, 9, untied_head};
  const size_t rows = 2 * shape.context;
  Gpt<float> gpt(shape, 2, arithmetic);
  const std::vector<float> start = InitialParameters<float>(shape, 3);
  float* values = arithmetic.Allocate(start.size());
  float* gradients = arithmetic.Allocate(start.size());
  arithmetic.Copy(start.size() * sizeof(float), start.data(), values);
  std::vector<uint8_t> text(rows + 1);
  for (size_t i = 0; i <= rows; ++i) text[i] = static_cast<uint8_t>(i * 37 % 11);
  auto* bytes = static_cast<uint8_t*>(arithmetic.AllocateBytes(rows + 1));
  arithmetic.Copy(rows + 1, text.data(), bytes);
  gpt.Forward({values, start.size()}, {bytes, rows}, {bytes + 1, rows});
  Pass pass{gpt.Loss(), std::vector<float>(start.size())};
  gpt.Backward({values, start.size()}, {gradients, start.size()});
  arithmetic.Copy(start.size() * sizeof(float), gradients, pass.gradients.data());
  return pass;
}

double DistanceOf(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

TEST(CudaModel, OnTheHost_HasTheLossAndGradientsOfTheCpu) {
  for (const bool untied_head : {false, true}) {
    CpuArithmetic<float> cpu;
    HostArithmetic<float> host(Precision::kFp32, false);
    const Pass expected = PassOf(cpu, untied_head), pass = PassOf(*host, untied_head);
    EXPECT_NEAR(pass.loss, expected.loss, 1e-6 * expected.loss);
    EXPECT_LT(DistanceOf(pass.gradients, expected.gradients), 1e-5);
  }
}

TEST(CudaModel, WithBf16Products_IsNearTheCpuButNotTheSame) {
  CpuArithmetic<float> cpu;
  HostArithmetic<float> host(Precision::kBf16, false);
  const Pass expected = PassOf(cpu, false), pass = PassOf(*host, false);
  EXPECT_NEAR(pass.loss, expected.loss, 0x1p-8 * expected.loss);
  const double distance = DistanceOf(pass.gradients, expected.gradients);
  EXPECT_LT(distance, 8 * 0x1p-8);  // a few roundings to 8 bits in a row
  EXPECT_GT(distance, 0x1p-12);
}

// Threads between two barriers run at once on a device: their order must not matter to a bit.
TEST(CudaModel, OnTheHost_DoesNotDependOnTheOrderOfThreads) {
  HostArithmetic<float> forward(Precision::kFp32, false), reversed(Precision::kFp32, true);
  const Pass a = PassOf(*forward, false), b = PassOf(*reversed, false);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.gradients, b.gradients);
}

TEST(CudaGridSum, OnTheHost_EqualsItsTwin) {
  HostGrid grid(false);
  GridArithmetic<float, HostGrid> arithmetic(grid, Precision::kFp32);
  std::vector<float> values(1000), sum(1000, 0.25F), expected = sum;
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01F * std::sin(static_cast<float>(i));
  arithmetic.RunEach(values.size(), GridSumEach{0.5F, values.data(), sum.data()});
  for (float& each : values) each *= 0.5F;
  AddOnGrid(values.size(), values.data(), expected.data());
  EXPECT_EQ(sum, expected);
}

}  // namespace
}  // namespace poolscope::trainer::cuda
