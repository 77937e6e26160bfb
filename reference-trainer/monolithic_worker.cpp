#include "reference-trainer/monolithic_worker.h"

#include "reference-trainer/passes.h"

namespace poolscope::trainer {

void RunMonolithic(Job& job) {
  const Options& options = job.options();
  const auto device = job.MakeDevice(0);
  Signal signal;
  const auto replica = job.MakeReplica();
  const auto shard = job.MakeShard(job.AllRanges(), options.state.offload);
  SampleState(job, 0);
  for (uint64_t step = 0; job.coordinator->BeginStep(step); ++step) {
    StepRecord record;
    record.step = step;
    if (replica) replica->ClearGradients();
    double loss_sum = 0;
    for (uint64_t m = 0; m < options.micro_batches; ++m) {
      loss_sum += ForwardBackward(job, *device, signal, replica.get(),
                                  {step, m, step, step * options.micro_batches + m});
      record.tokens += job.tokens_of_micro_batch();
    }
    if (shard) shard->Add(replica->Gradients(job.AllRanges()));
    Optimize(job, *device, shard.get(), 0, step);
    if (replica) replica->Install(job.AllRanges(), shard->values());
    record.loss = loss_sum / static_cast<double>(options.micro_batches);
    TellStep(job, record, options.micro_batches);
  }
}

}  // namespace poolscope::trainer
