#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "reference-trainer/admission.h"
#include "reference-trainer/annotations.h"
#include "reference-trainer/data.h"
#include "reference-trainer/device.h"
#include "reference-trainer/journal.h"
#include "reference-trainer/link.h"
#include "reference-trainer/model/replica.h"
#include "reference-trainer/model/shard.h"
#include "reference-trainer/options.h"
#include "reference-trainer/step_gate.h"
#include "reference-trainer/version_clock.h"

namespace poolscope::trainer {

// Thrown inside the workers' threads to unwind them when the run has failed; never leaves them.
struct Abandoned {};

// What all workers of a run share. Members synchronise themselves; the rest is constant.
class Job {
 public:
  // `corpus` is null where nothing is computed; it outlives the job.
  Job(const Options& options, const Corpus* corpus);

  const Options& options() const { return options_; }
  bool computes() const { return corpus_ != nullptr; }
  uint64_t tokens_of_micro_batch() const { return options_.model.batch * options_.model.context; }

  std::unique_ptr<Device> MakeDevice(size_t number) const;  // a number of its own per worker
  std::unique_ptr<Replica> MakeReplica() const;             // null where nothing is computed
  std::unique_ptr<Shard> MakeShard(size_t index, size_t count) const;

  // Bytes before encoding of shard `index`.
  uint64_t GradientBytes(size_t index) const;
  uint64_t WeightBytes(size_t index) const;
  // Where its values lie among all; empty where nothing is computed.
  Part ShardPart(size_t index) const;

  // The run ends with this message (the first one counts); all workers are woken.
  void Fail(const std::string& message);
  std::string failure();
  // Throws Abandoned where the run has failed. Workers look whenever they wait.
  void CheckRunning() const;

  // The run ends after the current step.
  void StopAfterCurrentStep();
  void NotifyComputeWorkers();

  // The squared norm of shard's part of the mean gradient of `step`; the last one makes the sample.
  void AddSquaredNorm(uint64_t step, double squares, size_t shards);

  const Annotations annotations;
  std::vector<std::unique_ptr<Signal>> compute_signals;  // by worker
  std::vector<std::unique_ptr<Signal>> update_signals;
  StepGate gate;        // synchronous and monolithic
  Admission admission;  // asynchronous
  VersionClock clock;
  Journal journal;
  std::unique_ptr<Link> gradients, weights;  // null in a monolithic run

 private:
  uint64_t ShardBytes(size_t index, uint64_t emulated_bytes) const;

  const Options options_;
  const Corpus* const corpus_;
  const GptShape shape_;
  size_t parameters_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::string failure_;  // guarded by mutex_
  struct Norm {
    double squares = 0;
    size_t shards = 0;
  };
  std::map<uint64_t, Norm> norms_;  // by step; guarded by mutex_
};

}  // namespace poolscope::trainer
