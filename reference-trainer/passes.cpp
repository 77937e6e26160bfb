#include "reference-trainer/passes.h"

#include <limits>

#include "reference-trainer/timing.h"

namespace poolscope::trainer {
namespace {

// Runs `math` on the device as annotated work.
void Work(Device& device, nvtxStringHandle_t name, double seconds, poolscope_work work,
          const std::function<void()>& math) {
  poolscope_begin(POOLSCOPE_WORK, name);
  work.cpu_ns = device.Run(seconds, math);
  poolscope_end_work(&work);
}

}  // namespace

double ForwardBackward(const Job& job, Device& device, Replica* replica, const MicroBatch& batch) {
  double loss = std::numeric_limits<double>::quiet_NaN();
  poolscope_work work = {};
  work.step = batch.step;
  work.micro_batch = batch.number;
  work.version = batch.version;
  work.scope = POOLSCOPE_PER_MICRO_BATCH;
  Work(device, job.annotations.forward, job.options().forward_seconds, work, [&] {
    if (replica) loss = replica->Forward(batch.data);
  });
  Work(device, job.annotations.backward, job.options().backward_seconds, work, [&] {
    if (replica) replica->Backward();
  });
  return loss;
}

void Optimize(Job& job, Device& device, Shard* shard, uint64_t step, size_t shards) {
  double squares = 0;
  poolscope_work work = {};
  work.step = step;
  work.micro_batch = POOLSCOPE_NO_VALUE;
  work.version = step + 1;
  work.scope = POOLSCOPE_PER_SHARD;
  const double seconds = job.options().update_seconds / static_cast<double>(shards);
  Work(device, job.annotations.optimizer, seconds, work, [&] {
    if (shard) squares = shard->Update(1.0 / static_cast<double>(job.options().micro_batches));
  });
  if (shard) job.coordinator->AddSquaredNorm(step, squares, shards);
}

void TellStep(Job& job, StepRecord record, uint64_t micro_batches) {
  record.end_ns = NowNs();
  poolscope_step_info info = {};
  info.step = record.step;
  info.version = record.step + 1;
  info.tokens = record.tokens;
  info.micro_batches = micro_batches;
  info.loss = record.loss;
  poolscope_step(job.annotations.step, &info);
  poolscope_sample(job.annotations.version, static_cast<double>(record.step + 1));
  if (record.loss == record.loss) poolscope_sample(job.annotations.loss, record.loss);
  poolscope_sample(job.annotations.tokens, static_cast<double>(record.tokens * (record.step + 1)));
  job.coordinator->Tell(record);
}

}  // namespace poolscope::trainer
