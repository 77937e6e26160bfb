// The kernels of the cuda device, and cuBLAS, on a GPU against their twins in double precision. The
// bound and its source: tests/support/arithmetic_twin.h.
#include <gtest/gtest.h>

#include "reference-trainer/cuda/cuda_arithmetic.h"
#include "tests/support/arithmetic_twin.h"

namespace poolscope::trainer {
namespace {

struct Kind {
  std::string name;
  bool bf16;
  GemmKind gemm;
};
const Kind kKinds[] = {{"OwnFp32", false, GemmKind::kOwn},
                       {"OwnBf16", true, GemmKind::kOwn},
                       {"CublasFp32", false, GemmKind::kCublas},
                       {"CublasBf16", true, GemmKind::kCublas}};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

// The last one is as large as a layer of GPT-2.
const TwinShape kShapes[] = {
    {1, 1, 1, 1, 1}, {2, 5, 12, 3, 7}, {3, 22, 150, 2, 70}, {2, 512, 768, 12, 2304}};

class GpuKernels : public testing::TestWithParam<std::tuple<Kind, TwinCase<float>>> {};

TEST_P(GpuKernels, OnADevice_EqualTheirTwins) {
  const auto& [kind, twin] = GetParam();
  CudaWorker worker;
  worker.bf16 = kind.bf16, worker.gemm = kind.gemm, worker.name = "test";
  if (const std::string why = CudaUnavailable(worker); !why.empty()) GTEST_SKIP() << why;
  for (const TwinShape& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << "width " << shape.width);
    const cuda::CudaArithmetic device = cuda::MakeCudaArithmetic(worker);
    twin.run(*device.arithmetic, kind.bf16, shape);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, GpuKernels,
                         testing::Combine(testing::ValuesIn(kKinds),
                                          testing::ValuesIn(TwinCases<float>())),
                         [](const auto& each) {
                           return std::get<0>(each.param).name + std::get<1>(each.param).name;
                         });

}  // namespace
}  // namespace poolscope::trainer
