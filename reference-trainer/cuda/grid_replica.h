#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "reference-trainer/cuda/grid_arithmetic.h"
#include "reference-trainer/model/gpt.h"
#include "reference-trainer/model/replica.h"

namespace poolscope::trainer::cuda {

// What a worker's arrays and kernels live on.
template <class Executor>
struct GridDevice {
  std::unique_ptr<Executor> executor;
  std::unique_ptr<GridArithmetic<float, Executor>> arithmetic;
};

// A replica in the memory of a device. Its passes return when the device has done them. What goes
// to the host or comes from it is staged in the executor's host memory.
template <class Executor>
class GridReplica : public Replica {
 public:
  GridReplica(GridDevice<Executor> device, const GptShape& shape, size_t batch, uint64_t seed)
      : device_(std::move(device)),
        executor_(*device_.executor),
        gpt_(shape, batch, *device_.arithmetic),
        count_(gpt_.parameters().size()),
        values_(device_.arithmetic->Allocate(count_)),
        micro_batch_(device_.arithmetic->Allocate(count_)),
        gradients_(device_.arithmetic->Allocate(count_)),
        staged_(static_cast<float*>(executor_.AllocateHost(count_ * sizeof(float)))),
        text_(static_cast<uint8_t*>(executor_.Allocate(2 * batch * shape.context))),
        staged_text_(static_cast<uint8_t*>(executor_.AllocateHost(2 * batch * shape.context))) {
    Install({{0, count_}}, InitialParameters<float>(shape, seed));
  }

  double Forward(const Batch& batch) override {
    const size_t rows = batch.tokens.size();
    std::copy(batch.tokens.begin(), batch.tokens.end(), staged_text_);
    std::copy(batch.targets.begin(), batch.targets.end(), staged_text_ + rows);
    executor_.CopyAsync(2 * rows, staged_text_, text_);
    gpt_.Begin({text_, rows}, {text_ + rows, rows});
    rows_ = rows, weight_ = batch.weight;
    executor_.Repeat({"forward", rows_}, [&] {
      for (size_t stage = 0; stage < gpt_.stages().size(); ++stage) {
        gpt_.ForwardStage(stage, {values_, count_});
      }
    });
    return gpt_.Loss();  // waits
  }

  void Backward() override {
    executor_.Repeat({"backward", rows_}, [&] {
      executor_.Clear(count_ * sizeof(float), micro_batch_);
      gpt_.Backward({values_, count_}, {micro_batch_, count_});
    });
    device_.arithmetic->RunEach(count_, GridSumEach{weight_, micro_batch_, gradients_});
    executor_.Wait();
  }

  void ClearGradients() override { executor_.Clear(count_ * sizeof(float), gradients_); }

  std::span<const float> Gradients(const Ranges& ranges) override {
    float* to = staged_;
    for (const Part& part : ranges) {
      executor_.CopyAsync(part.size() * sizeof(float), gradients_ + part.begin, to);
      to += part.size();
    }
    executor_.Wait();
    return {staged_, to};
  }

  std::span<const float> values() override {
    executor_.Copy(count_ * sizeof(float), values_, staged_);
    return {staged_, count_};
  }

  void Install(const Ranges& ranges, std::span<const float> values) override {
    std::copy(values.begin(), values.end(), staged_);
    const float* from = staged_;
    for (const Part& part : ranges) {
      executor_.CopyAsync(part.size() * sizeof(float), from, values_ + part.begin);
      from += part.size();
    }
    executor_.Wait();
  }

 private:
  const GridDevice<Executor> device_;
  Executor& executor_;
  Gpt<float> gpt_;
  const size_t count_;                                           // parameters
  float *const values_, *const micro_batch_, *const gradients_;  // [count_], device
  float* const staged_;                                          // [count_], host
  uint8_t* const text_;         // tokens, targets: [2, rows], device
  uint8_t* const staged_text_;  // the same, host
  size_t rows_ = 0;             // of the last Forward
  float weight_ = 1;            // of its gradients
};

}  // namespace poolscope::trainer::cuda
