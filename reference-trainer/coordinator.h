#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "reference-trainer/admission.h"
#include "reference-trainer/journal.h"

namespace poolscope::trainer {

// All that the workers of a run agree on. Arguments and results are values, so that it can be asked
// from another process. Any thread may call; nothing here waits for another worker.
class Coordinator {
 public:
  virtual ~Coordinator() = default;

  // Synchronous and monolithic: every worker asks at the beginning of each step. False: the run
  // ends before `step`.
  virtual bool BeginStep(uint64_t step) = 0;

  // Asynchronous: see Admission.
  virtual Admission::Attempt TryStart(uint64_t version) = 0;
  virtual Admission::Decision Ask(uint64_t attempt) = 0;
  virtual uint64_t steps() = 0;
  virtual uint64_t discarded() = 0;

  // Shard `shard` has made an update; the last one makes the next version, of which compute workers
  // that wait for credits are told.
  virtual void Updated(size_t shard) = 0;

  // The squared norm of a shard's part of the mean gradient of `step`; the last of `shards` makes
  // the sample.
  virtual void AddSquaredNorm(uint64_t step, double squares, size_t shards) = 0;

  // A step was made; told once, by update worker 0.
  virtual void Tell(const StepRecord& record) = 0;

  // The run ends after the current step.
  virtual void StopAfterCurrentStep() = 0;

  // The run ends with this message (the first one counts); all workers are woken.
  virtual void Fail(const std::string& message) = 0;
  virtual bool failed() = 0;
  virtual std::string failure() = 0;  // "": none
};

}  // namespace poolscope::trainer
