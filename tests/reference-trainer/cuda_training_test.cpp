// Replica and shard of the cuda device, on the host: see tests/support/host_grid.h.
#include <gtest/gtest.h>

#include <cmath>

#include "reference-trainer/cuda/grid_replica.h"
#include "reference-trainer/cuda/grid_shard.h"
#include "reference-trainer/model/cpu_replica.h"
#include "reference-trainer/model/cpu_shard.h"
#include "tests/support/host_grid.h"
#include "tests/support/training_loop.h"

namespace poolscope::trainer::cuda {
namespace {

constexpr TrainingCase kCase{{1, 16, 2, 8, false}, 2, 2, 5};
constexpr int kSteps = 7;

GridDevice<HostGrid> HostDevice(Precision precision) {
  auto grid = std::make_unique<HostGrid>(false);
  auto arithmetic = std::make_unique<GridArithmetic<float, HostGrid>>(*grid, precision);
  return {std::move(grid), std::move(arithmetic)};
}

// Two shards of the model, one of several ranges.
std::vector<Ranges> TwoShards() {
  const size_t count = Parameters(kCase.shape).size();
  return {{{0, 100}, {count / 2, count}}, {{100, count / 2}}};
}

template <class MakeShard>
std::vector<double> Train(Replica& replica, MakeShard make) {
  std::vector<std::unique_ptr<Shard>> shards;
  std::vector<OwnedShard> owned;
  for (const Ranges& each : TwoShards()) {
    shards.push_back(make(each));
    owned.push_back({shards.back().get(), each});
  }
  return LossesOf(kCase, replica, owned, kSteps);
}

std::vector<double> OnCpu() {
  CpuReplica replica(kCase.shape, kCase.batch, kCase.seed);
  return Train(replica, [](const Ranges& ranges) {
    return std::make_unique<CpuShard>(kCase.shape, ranges, kCase.seed, AdamW::Rates{});
  });
}

std::unique_ptr<GridShard<HostGrid>> HostShard(const Ranges& ranges) {
  return std::make_unique<GridShard<HostGrid>>(HostDevice(Precision::kFp32), kCase.shape, ranges,
                                               kCase.seed, AdamW::Rates{});
}

std::vector<double> OnGrid(Precision precision) {
  GridReplica<HostGrid> replica(HostDevice(precision), kCase.shape, kCase.batch, kCase.seed);
  return Train(replica, HostShard);
}

TEST(CudaTraining, OnTheHost_HasTheLossCurveOfTheCpu) {
  const auto cpu = OnCpu(), grid = OnGrid(Precision::kFp32);
  ASSERT_LT(cpu.back(), 0.99 * cpu.front());  // it learns
  for (size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(grid[i], cpu[i], 1e-5 * cpu[i]) << i;
}

TEST(CudaTraining, WithBf16ProductsOnTheHost_LearnsAsTheCpu) {
  const auto cpu = OnCpu(), grid = OnGrid(Precision::kBf16);
  for (size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(grid[i], cpu[i], 1e-2 * cpu[i]) << i;
  EXPECT_NE(grid.back(), cpu.back());
}

TEST(CudaTraining, Shard_RestoredAndUpdatedAgain_IsTheSame) {
  const Ranges ranges = TwoShards()[0];
  const auto on_grid = HostShard(ranges);
  Shard& grid = *on_grid;
  CpuShard cpu(kCase.shape, ranges, kCase.seed, AdamW::Rates{});
  std::vector<float> gradients(SizeOf(ranges));
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i] = std::sin(static_cast<float>(i));
  const auto update = [&](Shard& shard) {
    shard.Add(gradients);
    return shard.Update(0.5);
  };
  update(cpu);
  // A shard that has gone elsewhere goes on as the one whose state it takes.
  update(grid), update(grid);
  grid.Restore(cpu.state(), 1);
  const double norm = update(cpu);
  EXPECT_NEAR(update(grid), norm, 1e-9 * norm);
  const auto a = grid.state(), b = cpu.state();
  for (size_t i = 0; i < gradients.size(); ++i) {
    ASSERT_NEAR(a.master[i], b.master[i], 1e-7);
    ASSERT_NEAR(a.first[i], b.first[i], 1e-7);
    ASSERT_NEAR(a.second[i], b.second[i], 1e-7);
  }
}

TEST(CudaTraining, Shard_TakesTheRateOfItsUpdates) {
  const Ranges ranges = TwoShards()[1];
  const std::vector<float> gradients(SizeOf(ranges), 0.5F);
  const auto updated = [&](Shard& shard, double rate) {
    shard.set_rate(rate);
    shard.Add(gradients);
    shard.Update(1);
    const auto values = shard.values();
    return std::vector<float>(values.begin(), values.end());
  };
  CpuShard cpu(kCase.shape, ranges, kCase.seed, AdamW::Rates{});
  const auto slow = updated(*HostShard(ranges), 0.25), twin = updated(cpu, 0.25);
  for (size_t i = 0; i < twin.size(); ++i) ASSERT_NEAR(slow[i], twin[i], 1e-7);
  EXPECT_NE(slow, updated(*HostShard(ranges), 1));
}

TEST(CudaTraining, Gradients_AreTimesTheWeightOfTheirBatch) {
  const size_t rows = kCase.batch * kCase.shape.context;
  Batch batch;
  for (size_t i = 0; i < rows; ++i) {
    batch.tokens.push_back(static_cast<uint8_t>(i % 11));
    batch.targets.push_back(static_cast<uint8_t>(i % 7));
  }
  const Ranges all = AllOf(kCase);
  const auto gradients = [&](Replica& replica, float weight) {
    batch.weight = weight;
    replica.ClearGradients();
    replica.Forward(batch);
    replica.Backward();
    const auto values = replica.Gradients(all);
    return std::vector<float>(values.begin(), values.end());
  };
  CpuReplica cpu(kCase.shape, kCase.batch, kCase.seed);
  GridReplica<HostGrid> grid(HostDevice(Precision::kFp32), kCase.shape, kCase.batch, kCase.seed);
  const auto light = gradients(grid, 0.5F), twin = gradients(cpu, 0.5F), full = gradients(grid, 1);
  for (size_t i = 0; i < twin.size(); ++i) {
    ASSERT_NEAR(light[i], twin[i], 1e-6);
    ASSERT_NEAR(light[i], full[i] / 2, 0x1p-28);  // each is rounded to a multiple of that
  }
}

}  // namespace
}  // namespace poolscope::trainer::cuda
