#include "reference-trainer/job.h"

#include <cmath>

namespace poolscope::trainer {
namespace {

GptShape ShapeOf(const ModelOptions& model) {
  return {model.layers, model.width, model.heads, model.context, model.untied_head};
}

Admission::Rules RulesOf(const Options& options) {
  return {options.steps, options.micro_batches, options.lag_bound, options.stale,
          options.update_workers};
}

std::vector<Signal*> Pointers(const std::vector<std::unique_ptr<Signal>>& signals) {
  std::vector<Signal*> pointers;
  pointers.reserve(signals.size());
  for (const auto& each : signals) pointers.push_back(each.get());
  return pointers;
}

}  // namespace

Job::Job(const Options& options, const Corpus* corpus)
    : annotations(options),
      gate(options.steps),
      admission(RulesOf(options)),
      clock(options.mode == Mode::kMonolithic ? 1 : options.update_workers),
      options_(options),
      corpus_(corpus),
      shape_(ShapeOf(options.model)) {
  if (corpus) parameters_ = Parameters(shape_).size();
  if (options.mode == Mode::kMonolithic) return;
  for (uint64_t i = 0; i < options.compute_workers; ++i) {
    compute_signals.push_back(std::make_unique<Signal>());
  }
  for (uint64_t i = 0; i < options.update_workers; ++i) {
    update_signals.push_back(std::make_unique<Signal>());
  }
  gradients = std::make_unique<Link>("gradients", options.gradients.shape, options.compute_workers,
                                     Pointers(update_signals));
  weights = std::make_unique<Link>("weights", options.weights.shape, options.update_workers,
                                   Pointers(compute_signals));
}

std::unique_ptr<Device> Job::MakeDevice(size_t number) const {
  if (options_.device == DeviceKind::kCpu) return std::make_unique<CpuDevice>();
  return std::make_unique<EmulatedDevice>(options_.jitter, options_.seed * 1000003 + number);
}

std::unique_ptr<Replica> Job::MakeReplica() const {
  if (!corpus_) return nullptr;
  return std::make_unique<Replica>(shape_, options_.model.batch, *corpus_, options_.seed);
}

std::unique_ptr<Shard> Job::MakeShard(size_t index, size_t count) const {
  if (!corpus_) return nullptr;
  AdamW::Rates rates;
  rates.learning_rate = options_.model.learning_rate;
  rates.weight_decay = options_.model.weight_decay;
  return std::make_unique<Shard>(shape_, index, count, options_.seed, rates);
}

Part Job::ShardPart(size_t index) const {
  return PartOf(parameters_, index, options_.update_workers);
}

uint64_t Job::ShardBytes(size_t index, uint64_t emulated_bytes) const {
  if (options_.device == DeviceKind::kEmulated) {
    const Part part = PartOf(emulated_bytes, index, options_.update_workers);
    return part.end - part.begin;
  }
  const Part part = ShardPart(index);
  return (part.end - part.begin) * sizeof(float);
}

uint64_t Job::GradientBytes(size_t index) const {
  return ShardBytes(index, options_.gradient_bytes);
}

uint64_t Job::WeightBytes(size_t index) const { return ShardBytes(index, options_.weight_bytes); }

void Job::Fail(const std::string& message) {
  {
    std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = message;
  }
  failed_ = true;
  for (const auto& signal : compute_signals) signal->Notify();
  for (const auto& signal : update_signals) signal->Notify();
}

std::string Job::failure() {
  std::lock_guard lock(mutex_);
  return failure_;
}

void Job::CheckRunning() const {
  if (failed_) throw Abandoned{};
}

void Job::StopAfterCurrentStep() {
  gate.StopAfterCurrentStep();
  admission.StopAfterCurrentStep();
  NotifyComputeWorkers();
}

void Job::NotifyComputeWorkers() {
  for (const auto& signal : compute_signals) signal->Notify();
}

void Job::AddSquaredNorm(uint64_t step, double squares, size_t shards) {
  std::lock_guard lock(mutex_);
  Norm& norm = norms_[step];
  norm.squares += squares;
  if (++norm.shards < shards) return;
  poolscope_sample(annotations.gradient_norm, std::sqrt(norm.squares));
  norms_.erase(step);
}

}  // namespace poolscope::trainer
