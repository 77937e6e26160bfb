#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "reference-trainer/cuda/grid_replica.h"
#include "reference-trainer/cuda/optimizer.h"
#include "reference-trainer/model/adamw.h"
#include "reference-trainer/model/shard.h"

namespace poolscope::trainer::cuda {

// A shard in the memory of a device; see GridReplica.
template <class Executor>
class GridShard : public Shard {
 public:
  GridShard(GridDevice<Executor> device, const GptShape& shape, const Ranges& ranges, uint64_t seed,
            AdamW::Rates rates)
      : device_(std::move(device)),
        executor_(*device_.executor),
        count_(SizeOf(ranges)),
        optimizer_(Parameters(shape), ranges, rates),
        master_(Array()),
        first_(Array()),
        second_(Array()),
        sum_(Array()),
        arrived_(Array()),
        decays_(Array()),
        staged_(static_cast<float*>(executor_.AllocateHost(3 * count_ * sizeof(float)))) {
    const std::vector<float> all = InitialParameters<float>(shape, seed);
    std::vector<float> gathered;
    Write(Gather(all, ranges, gathered), master_);
    Write(optimizer_.decays(), decays_);
  }

  using Shard::Update;
  void Add(std::span<const float> gradients) override {
    Write(gradients, arrived_);
    device_.arithmetic->Add(count_, sum_, arrived_, sum_);
    executor_.Wait();
  }

  double Update(double scale, const RunStage& run) override {
    ++updates_;
    double squares = 0;
    run(UpdateStage::kOptimize, count_, [&] {
      squares = device_.arithmetic->SumOfSquares(count_, sum_);
      device_.arithmetic->RunEach(count_, AdamWEach{optimizer_.StepOf(scale, updates_, rate()),
                                                    decays_, sum_, master_, first_, second_});
      executor_.Clear(count_ * sizeof(float), sum_);
      executor_.Wait();
    });
    return squares * scale * scale;
  }

  std::span<const float> values() override { return Read(master_, 0); }

  State state() override { return {Read(master_, 0), Read(first_, 1), Read(second_, 2)}; }

  void Restore(const State& state, uint64_t updates) override {
    Write(state.master, master_);
    Write(state.first, first_);
    Write(state.second, second_);
    executor_.Clear(count_ * sizeof(float), sum_);
    updates_ = updates;
  }

 private:
  float* Array() { return device_.arithmetic->Allocate(count_); }

  void Write(std::span<const float> values, float* to) {
    std::copy(values.begin(), values.end(), staged_);
    executor_.Copy(count_ * sizeof(float), staged_, to);
  }

  std::span<const float> Read(const float* from, size_t place) {
    float* to = staged_ + place * count_;
    executor_.Copy(count_ * sizeof(float), from, to);
    return {to, count_};
  }

  const GridDevice<Executor> device_;
  Executor& executor_;
  const size_t count_;  // parameters of the shard
  const AdamW optimizer_;
  float *const master_, *const first_, *const second_;  // [count_], device
  float *const sum_, *const arrived_, *const decays_;   // [count_], device
  float* const staged_;                                 // [3, count_], host
  uint64_t updates_ = 0;
};

}  // namespace poolscope::trainer::cuda
