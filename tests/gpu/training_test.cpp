// Loss curves of the cuda device on a GPU against the cpu's.
#include <gtest/gtest.h>

#include "reference-trainer/cuda/cuda_pool.h"
#include "reference-trainer/model/cpu_replica.h"
#include "reference-trainer/model/cpu_shard.h"
#include "tests/support/training_loop.h"

namespace poolscope::trainer {

void PrintTo(const CudaWorker& worker, std::ostream* out) {
  *out << (worker.gemm == GemmKind::kOwn ? "own products" : "cuBLAS")
       << (worker.graphs ? ", graphs" : "");
}

namespace {

constexpr int kSteps = 60;
constexpr TrainingCase kCase{{2, 64, 4, 64, false}, 4, 4, 1};

CudaWorker Worker(bool bf16, GemmKind gemm, bool graphs) {
  CudaWorker worker;
  worker.bf16 = bf16, worker.gemm = gemm, worker.graphs = graphs, worker.name = "test";
  return worker;
}

std::vector<double> OnCpu() {
  CpuReplica replica(kCase.shape, kCase.batch, kCase.seed);
  const Ranges all = AllOf(kCase);
  CpuShard shard(kCase.shape, all, kCase.seed, AdamW::Rates{});
  return LossesOf(kCase, replica, {{&shard, all}}, kSteps);
}

std::vector<double> OnGpu(const CudaWorker& worker) {
  const auto replica = MakeCudaReplica(worker, kCase.shape, kCase.batch, kCase.seed);
  const Ranges all = AllOf(kCase);
  const auto shard = MakeCudaShard(worker, kCase.shape, all, kCase.seed, AdamW::Rates{});
  return LossesOf(kCase, *replica, {{shard.get(), all}}, kSteps);
}

class GpuTraining : public testing::TestWithParam<CudaWorker> {};

// In fp32 the curves part by rounding alone: sums are added in another order, and AdamW divides by
// the gradients' magnitude, so that a bit of a small gradient can become a bit of a step.
TEST_P(GpuTraining, InFp32_HasTheLossCurveOfTheCpu) {
  CudaWorker worker = GetParam();
  if (const std::string why = CudaUnavailable(worker); !why.empty()) GTEST_SKIP() << why;
  const auto cpu = OnCpu(), gpu = OnGpu(worker);
  for (size_t i = 0; i < cpu.size(); ++i)
    EXPECT_NEAR(gpu[i], cpu[i], 1e-3 * cpu[i]) << "step " << i;
  // The same twice: no sum depends on which thread was first.
  EXPECT_EQ(OnGpu(worker), gpu);
}

TEST_P(GpuTraining, InBf16_LearnsAsTheCpu) {
  CudaWorker worker = GetParam();
  worker.bf16 = true;
  if (const std::string why = CudaUnavailable(worker); !why.empty()) GTEST_SKIP() << why;
  const auto cpu = OnCpu(), gpu = OnGpu(worker);
  for (size_t i = 0; i < cpu.size(); ++i)
    EXPECT_NEAR(gpu[i], cpu[i], 0.02 * cpu[i]) << "step " << i;
  EXPECT_NE(gpu, cpu);
}

INSTANTIATE_TEST_SUITE_P(Each, GpuTraining,
                         testing::Values(Worker(false, GemmKind::kOwn, false),
                                         Worker(false, GemmKind::kCublas, false),
                                         Worker(false, GemmKind::kCublas, true)),
                         [](const auto& each) {
                           return std::string(each.param.gemm == GemmKind::kOwn ? "Own"
                                                                                : "Cublas") +
                                  (each.param.graphs ? "Graphs" : "");
                         });

// Updates on the host, as ZeRO-Offload makes them: the same curve as with everything on the cpu.
TEST(GpuOffload, WithUpdatesOnTheHost_HasTheLossCurveOfTheCpu) {
  const CudaWorker worker = Worker(false, GemmKind::kOwn, false);
  if (const std::string why = CudaUnavailable(worker); !why.empty()) GTEST_SKIP() << why;
  const auto replica = MakeCudaReplica(worker, kCase.shape, kCase.batch, kCase.seed);
  const Ranges all = AllOf(kCase);
  CpuShard shard(kCase.shape, all, kCase.seed, AdamW::Rates{});
  const auto cpu = OnCpu(), both = LossesOf(kCase, *replica, {{&shard, all}}, kSteps);
  for (size_t i = 0; i < cpu.size(); ++i)
    EXPECT_NEAR(both[i], cpu[i], 1e-3 * cpu[i]) << "step " << i;
}

}  // namespace
}  // namespace poolscope::trainer
