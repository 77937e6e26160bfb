#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "reference-trainer/device.h"
#include "reference-trainer/job.h"

namespace poolscope::trainer {

// One forward and backward pass: which micro-batch of which step, with which weights, on what data.
struct MicroBatch {
  uint64_t step = 0;
  uint64_t number = 0;   // within the step
  uint64_t version = 0;  // of the weights
  uint64_t data = 0;     // index in the corpus' order
  uint64_t sequences = 1;
  std::shared_ptr<const Batch> content;  // got by ForwardBackward
};

class WeightSource;

// Told of each bucket of gradients that the backward pass has completed.
using OnBucket = std::function<void(const GradientBuckets::Bucket&)>;

// Adds its gradients to the replica's sum and its mean loss × sequences to `loss_sum`, NaN where
// `replica` is null: when the device has done it, see Device::Synchronize. `signal` is the
// worker's. `source`: where the weights come from stage by stage, null where the replica has them.
// With `on_bucket` (may be empty) all is done when this returns.
void ForwardBackward(const Job& job, Device& device, Signal& signal, Replica* replica,
                     MicroBatch batch, double& loss_sum, WeightSource* source = nullptr,
                     const OnBucket& on_bucket = {});

// Runs `math` on the device as annotated work.
void Work(Device& device, nvtxStringHandle_t name, double seconds, poolscope_work work,
          const std::function<void()>& math);

// The update of a step on shard `index`, with the mean over its `tokens`: `optimizer`, and where
// its state is offloaded `offload_fetch` and `offload_write_back` around it. `shard` may be null.
void Optimize(Job& job, Device& device, Shard* shard, size_t index, const StepPlan& plan,
              uint64_t tokens);

// The sizes of the optimizer state of shard `index`, as counters of the calling worker.
void SampleState(const Job& job, size_t index);

// The marks, counters and journal of an update, by worker 0; of one that is made again only the
// counters. `record` lacks only its end.
void TellStep(Job& job, StepRecord record, const StepPlan& plan);

}  // namespace poolscope::trainer
