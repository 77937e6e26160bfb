#include "reference-trainer/passes.h"

#include <limits>

#include "reference-trainer/model/stages.h"
#include "reference-trainer/staged_pass.h"
#include "reference-trainer/timing.h"

namespace poolscope::trainer {

void Work(Device& device, nvtxStringHandle_t name, double seconds, poolscope_work work,
          const std::function<void()>& math) {
  device.Launch({name, seconds, work, math});
  device.Synchronize();
}

namespace {

void BackwardInBuckets(const Job& job, Device& device, Replica* replica, double seconds,
                       const poolscope_work& work, const OnBucket& on_bucket) {
  StagedReplica* const staged = replica ? replica->staged() : nullptr;
  size_t stage = StagesOf(job.shape()).size();  // the last one done
  const auto& buckets = job.buckets->buckets();
  for (const GradientBuckets::Bucket& bucket : buckets) {
    Work(device, job.annotations.backward, seconds / static_cast<double>(buckets.size()), work,
         [&] {
           while (staged && stage > bucket.last_stage) staged->BackwardStage(--stage);
         });
    on_bucket(bucket);
  }
}

// Its content, from the job's loader where it has one: then it is waited for as input.
std::shared_ptr<const Batch> Load(const Job& job, Device& device, Signal& signal,
                                  const MicroBatch& micro_batch) {
  const uint64_t data = micro_batch.data;
  if (!job.loader) return job.ReadBatch(data, micro_batch.sequences);
  bool waited = false;
  auto batch = job.loader->Get(
      data, signal, [&] { job.CheckRunning(); }, waited);
  if (waited) device.Waited();
  return batch;
}

}  // namespace

void ForwardBackward(const Job& job, Device& device, Signal& signal, Replica* replica,
                     MicroBatch batch, double& loss_sum, WeightSource* source,
                     const OnBucket& on_bucket) {
  batch.content = Load(job, device, signal, batch);
  if (source || job.expert_load) {
    loss_sum += ForwardBackwardInStages(job, device, replica, batch, source) *
                static_cast<double>(batch.sequences);
    return;
  }
  if (!replica) loss_sum = std::numeric_limits<double>::quiet_NaN();
  poolscope_work work = {};
  work.step = batch.step;
  work.micro_batch = batch.number;
  work.version = batch.version;
  work.scope = POOLSCOPE_PER_MICRO_BATCH;
  const Options& options = job.options();
  const auto sequences = static_cast<double>(batch.sequences);
  const double size = sequences / static_cast<double>(options.model.batch);
  device.Launch({job.annotations.forward, size * options.forward_seconds, work,
                 [replica, sequences, &loss_sum, content = batch.content] {
                   if (replica) loss_sum += replica->Forward(*content) * sequences;
                 }});
  if (on_bucket) {
    return BackwardInBuckets(job, device, replica, size * options.backward_seconds, work,
                             on_bucket);
  }
  device.Launch({job.annotations.backward, size * options.backward_seconds, work,
                 [replica, content = batch.content] {
                   if (replica) replica->Backward();
                 }});
}

void Optimize(Job& job, Device& device, Shard* shard, size_t index, const StepPlan& plan,
              uint64_t tokens) {
  const Options& options = job.options();
  const uint64_t step = plan.step;
  const StateSizes& stated = job.ShardState(index);
  // A shard that is really there may be smaller than the one that an emulated device stands for.
  const StateSizes own =
      shard ? SizesOfState(SizeOf(job.ShardRanges(index)), options.state.offload) : stated;
  poolscope_work work = {};
  work.step = step;
  work.micro_batch = POOLSCOPE_NO_VALUE;
  work.version = step + 1;
  work.scope = POOLSCOPE_PER_SHARD;
  const double rate = options.state.offload.bytes_per_second;
  const double copy_seconds = rate > 0 ? static_cast<double>(stated.offloaded()) / rate : 0;
  const RunStage run = [&](UpdateStage stage, size_t count, const auto& math) {
    const bool optimize = stage == UpdateStage::kOptimize;
    const uint64_t of = optimize ? own.parameters : own.offloaded_parameters;
    const double part = of > 0 ? static_cast<double>(count) / static_cast<double>(of) : 1;
    const Annotations& names = job.annotations;
    Work(device,
         optimize                       ? names.optimizer
         : stage == UpdateStage::kFetch ? names.offload_fetch
                                        : names.offload_write_back,
         part * (optimize ? options.update_seconds * job.ShardShare(index) : copy_seconds), work,
         math);
  };
  if (shard) {
    // Gradients are means over the tokens of a micro-batch of the usual size.
    const double micro_batches =
        static_cast<double>(tokens) / static_cast<double>(job.tokens_of_micro_batch());
    shard->set_rate(plan.rate);
    const double squares = shard->Update(1.0 / micro_batches, run);
    const bool monolithic = options.mode == Mode::kMonolithic;
    job.coordinator->AddSquaredNorm(step, squares, monolithic ? 1 : options.update_workers);
    return;
  }
  const uint64_t offloaded = own.offloaded_parameters;
  if (offloaded > 0) run(UpdateStage::kFetch, offloaded, {});
  run(UpdateStage::kOptimize, own.parameters, {});
  if (offloaded > 0) run(UpdateStage::kWriteBack, offloaded, {});
}

void SampleState(const Job& job, size_t index) {
  if (!poolscope_attached()) return;
  const StateSizes& state = job.ShardState(index);
  const auto sample = [](const char* name, uint64_t bytes) {
    poolscope_sample(poolscope_counter(name), static_cast<double>(bytes));
  };
  sample("optimizer_state_bytes", state.total());
  sample("optimizer_state_bytes.master_weights", state.master_weights());
  sample("optimizer_state_bytes.first_moment", state.first_moment());
  sample("optimizer_state_bytes.second_moment", state.second_moment());
  sample("optimizer_state_bytes.gradient_sum", state.gradient_sum());
  sample("optimizer_state_bytes.offloaded", state.offloaded());
}

void TellStep(Job& job, StepRecord record, const StepPlan& plan) {
  record.end_ns = NowNs();
  poolscope_step_info info = {};
  info.step = record.step;
  info.version = record.step + 1;
  info.tokens = record.tokens;
  info.micro_batches = record.micro_batches;
  info.loss = record.loss;
  if (record.step >= job.journal.told()) poolscope_step(job.annotations.step, &info);
  poolscope_sample(job.annotations.version, static_cast<double>(record.step + 1));
  if (record.loss == record.loss) poolscope_sample(job.annotations.loss, record.loss);
  poolscope_sample(job.annotations.tokens, static_cast<double>(record.tokens_total));
  poolscope_sample(job.annotations.micro_batches, static_cast<double>(plan.micro_batches));
  poolscope_sample(job.annotations.sequences, static_cast<double>(plan.sequences));
  if (record.versions_held > 0) {
    poolscope_sample(job.annotations.versions_held, static_cast<double>(record.versions_held));
  }
  poolscope_sample(job.annotations.compute_workers, static_cast<double>(record.compute_workers));
  job.coordinator->Tell(record);
}

}  // namespace poolscope::trainer
