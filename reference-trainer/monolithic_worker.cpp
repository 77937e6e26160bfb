#include "reference-trainer/monolithic_worker.h"

#include "reference-trainer/memory.h"
#include "reference-trainer/passes.h"
#include "reference-trainer/worker_state.h"

namespace poolscope::trainer {

void RunMonolithic(Job& job) {
  const auto device = job.MakeDevice(PoolRole::kCompute, 0);
  MemoryUse memory(job.options(), PoolRole::kCompute, 0);
  Signal signal;
  const auto replica = job.MakeReplica();
  const auto shard = job.MakeShard(job.AllRanges(), job.options().state.offload);
  SampleState(job, 0);
  const TrainingState& start = job.start();
  if (shard && start.step > 0) {
    CopyIn(start, job.AllRanges(), *shard);
    replica->Install(job.AllRanges(), shard->values());
  }
  uint64_t tokens = job.tokens_before();
  uint64_t step = start.step;
  for (; const auto plan = job.coordinator->BeginStep(step); ++step) {
    const Phase warm_up(plan->warm_up ? job.annotations.warm_up : nullptr);
    memory.AtStep(step);
    StepRecord record;
    record.step = step;
    record.micro_batches = plan->micro_batches;
    record.compute_workers = 1;
    if (replica) replica->ClearGradients();
    double loss_sum = 0;
    const Drained drained(*device);
    for (uint64_t m = 0; m < plan->micro_batches; ++m) {
      ForwardBackward(job, *device, signal, replica.get(),
                      {step, m, step, plan->first + m, plan->sequences}, loss_sum);
    }
    device->Synchronize();
    const uint64_t step_tokens = plan->micro_batches * job.tokens_of_micro_batch();
    record.tokens = job.StatedTokens(step_tokens);
    record.tokens_total = tokens += record.tokens;
    if (shard) shard->Add(replica->Gradients(job.AllRanges()));
    Optimize(job, *device, shard.get(), 0, *plan, step_tokens);
    job.coordinator->Updated(0);
    if (replica) replica->Install(job.AllRanges(), shard->values());
    record.loss = loss_sum / static_cast<double>(plan->micro_batches * plan->sequences);
    TellStep(job, record, *plan);
    GiveShard(job, *device, shard.get(), 0, step + 1, false, {});
  }
  if (step > start.step) GiveShard(job, *device, shard.get(), 0, step, true, {});
}

}  // namespace poolscope::trainer
