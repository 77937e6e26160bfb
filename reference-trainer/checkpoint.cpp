#include "reference-trainer/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "reference-trainer/timing.h"

namespace poolscope::trainer {
namespace {

constexpr std::chrono::milliseconds kPatience(20);  // between two looks at whether the run failed

// Compute workers that take part in every step.
uint64_t Computing(const Options& options) {
  return std::min(options.compute_workers, options.micro_batches);
}

// Bytes that a checkpoint stands for on emulated devices.
uint64_t StatedBytes(const Options& options) {
  uint64_t bytes = 0;
  for (const StateSizes& state : StateOfWorkers(options)) bytes += 12 * state.parameters;
  if (options.checkpoint.full) bytes += options.compute_workers * options.weight_bytes;
  return bytes;
}

uint64_t BytesOf(const TrainingState& state) {
  uint64_t bytes = 0;
  for (const auto& [name, values] : state.arrays) bytes += values.size() * sizeof(float);
  return bytes;
}

// All arrays that a run's checkpoints have.
TrainingState EmptyState(const Options& options, size_t parameters) {
  TrainingState state;
  if (parameters == 0) return state;
  const auto add = [&](const std::string& name) { state.arrays[name].resize(parameters); };
  for (const char* name : {"master_weights", "first_moment", "second_moment"}) add(name);
  if (options.mode == Mode::kMonolithic) return state;
  if (options.weights.codec.needs_every_message()) add("sent_weights");
  for (uint64_t i = 0; KeepsResiduals(options) && i < Computing(options); ++i) {
    add(fmt::format("residual/{}", i));
  }
  for (uint64_t i = 0; options.checkpoint.full && i < options.compute_workers; ++i) {
    add(fmt::format("replica/{}", i));
  }
  return state;
}

size_t ComputeGivers(const Options& options) {
  if (options.checkpoint.full) return options.compute_workers;
  return KeepsResiduals(options) ? Computing(options) : 0;
}

void ScatterInto(TrainingState& state, const char* name, const Ranges& ranges,
                 std::span<const float> values) {
  Scatter(values, ranges, state.arrays.at(name));
}

}  // namespace

StateFolder::Facts FactsOf(const Options& options, const Corpus* corpus) {
  const ModelOptions& model = options.model;
  StateFolder::Facts facts;
  const auto add = [&](const char* flag, const auto& value) {
    facts.emplace_back(flag, fmt::format("{}", value));
  };
  add("--math", options.math ? "tiny" : "none");
  add("--seed", options.seed);
  add("--micro-batches", options.micro_batches);
  if (!corpus) return facts;
  add("--layers", model.layers);
  add("--width", model.width);
  add("--heads", model.heads);
  add("--context", model.context);
  add("--batch", model.batch);
  add("--untied-head", model.untied_head);
  add("--experts", model.experts.count);
  add("--experts-per-token", model.experts.per_token);
  add("--data", fmt::format("of {} bytes, CRC32C {:08X}", corpus->size(), corpus->Checksum()));
  return facts;
}

Checkpoints::Checkpoints(const Options& options, StateFolder folder, size_t parameters,
                         std::function<void(const std::string&)> fail, std::function<bool()> failed,
                         std::function<bool()> ending)
    : options_(options.checkpoint),
      folder_(std::move(folder)),
      full_(options.checkpoint.full),
      compute_givers_(ComputeGivers(options)),
      givers_((options.mode == Mode::kMonolithic ? 1 : options.update_workers) + compute_givers_),
      seconds_(options_.bytes_per_second > 0
                   ? static_cast<double>(options.devices.emulated()
                                             ? StatedBytes(options)
                                             : BytesOf(EmptyState(options, parameters))) /
                         options_.bytes_per_second
                   : 0),
      fail_(std::move(fail)),
      failed_(std::move(failed)),
      ending_(std::move(ending)),
      wait_name_(poolscope_name("checkpoint_wait")),
      snapshot_name_(poolscope_name("checkpoint_snapshot")),
      write_name_(poolscope_name("checkpoint_write")),
      step_counter_(poolscope_counter("checkpoint.step")),
      bytes_counter_(poolscope_counter("checkpoint.bytes")),
      state_(EmptyState(options, parameters)),
      writer_([this] { Write(); }) {}

Checkpoints::~Checkpoints() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

bool Checkpoints::Due(uint64_t step, bool last) const {
  const bool regular = step % options_.every == 0;
  return step > 0 && (last ? !regular : regular);
}

bool Checkpoints::WaitUntil(std::unique_lock<std::mutex>& lock, nvtxStringHandle_t name,
                            const std::function<bool()>& done) {
  if (done()) return true;
  poolscope_begin(POOLSCOPE_OTHER_WORK, name);
  while (!done() && !ending_()) changed_.wait_for(lock, kPatience);
  poolscope_end();
  return done();
}

bool Checkpoints::Give(uint64_t step, Device& device, double seconds,
                       const std::function<void(TrainingState&)>& copy) {
  std::unique_lock lock(mutex_);
  const auto may_fill = [&] {
    return phase_ == Phase::kFree || (phase_ == Phase::kFilling && step_ == step);
  };
  if (!WaitUntil(lock, wait_name_, may_fill)) return false;
  if (phase_ == Phase::kFree) {
    phase_ = Phase::kFilling;
    step_ = state_.step = step;
    missing_ = givers_;
  }
  lock.unlock();
  poolscope_begin(POOLSCOPE_OTHER_WORK, snapshot_name_);
  device.Run(seconds, [&] { copy(state_); });
  poolscope_end();
  lock.lock();
  if (--missing_ == 0) {
    phase_ = Phase::kWriting;
    changed_.notify_all();
  }
  if (!full_) return true;
  return WaitUntil(lock, write_name_, [&] { return step_ != step || phase_ == Phase::kFree; });
}

void Checkpoints::Settle() {
  std::unique_lock lock(mutex_);
  if (phase_ == Phase::kFilling) phase_ = Phase::kFree;
  while (phase_ != Phase::kFree && !failed_()) changed_.wait_for(lock, kPatience);
}

void Checkpoints::Write() {
  UseFineTimers();
  nvtxNameOsThreadA(static_cast<uint32_t>(syscall(SYS_gettid)), "checkpoint/0");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || phase_ == Phase::kWriting; });
    if (phase_ != Phase::kWriting) return;
    WriteOne(lock);
  }
}

void Checkpoints::WriteOne(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const int64_t end_ns = NowNs() + static_cast<int64_t>(seconds_ * 1e9);
  poolscope_begin(POOLSCOPE_OTHER_WORK, write_name_);
  const std::string error = folder_.Write(state_, options_.keep, [&] {
    const int64_t slice = std::chrono::nanoseconds(kPatience).count();
    while (!failed_() && NowNs() < end_ns) SleepUntilNs(std::min(end_ns, NowNs() + slice));
    return !failed_();
  });
  poolscope_end();
  if (!error.empty()) fail_(error);
  if (!failed_()) {
    poolscope_sample(step_counter_, static_cast<double>(state_.step));
    poolscope_sample(bytes_counter_, static_cast<double>(BytesOf(state_)));
  }
  lock.lock();
  phase_ = Phase::kFree;
  changed_.notify_all();
}

void CopyOut(Shard& shard, const Ranges& ranges, TrainingState& state) {
  const Shard::State own = shard.state();
  ScatterInto(state, "master_weights", ranges, own.master);
  ScatterInto(state, "first_moment", ranges, own.first);
  ScatterInto(state, "second_moment", ranges, own.second);
}

void CopyIn(const TrainingState& state, const Ranges& ranges, Shard& shard) {
  std::vector<float> master, first, second;
  const auto own = [&](const char* name, std::vector<float>& gathered) {
    return Gather(state.arrays.at(name), ranges, gathered);
  };
  shard.Restore(
      {own("master_weights", master), own("first_moment", first), own("second_moment", second)},
      state.step);
}

}  // namespace poolscope::trainer
