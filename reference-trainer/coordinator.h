#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reference-trainer/admission.h"
#include "reference-trainer/journal.h"
#include "reference-trainer/membership.h"
#include "reference-trainer/step_plan.h"
#include "reference-trainer/training_state.h"

namespace poolscope::trainer {

// All that the workers of a run agree on. Arguments and results are values, so that it can be asked
// from another process. Any thread may call; nothing here waits for another worker.
class Coordinator {
 public:
  virtual ~Coordinator() = default;

  // Update workers and monolithic runs, at the beginning of each step. None: the run ends before
  // `step`.
  virtual std::optional<StepPlan> BeginStep(uint64_t step) = 0;

  // Compute workers: what to compute next; see Admission and, for synchronous training, StepShares.
  virtual Admission::Attempt TryStart(uint64_t worker, uint64_t version) = 0;
  virtual bool HandedOver(uint64_t attempt) = 0;
  virtual Admission::Decision Ask(uint64_t attempt) = 0;
  virtual uint64_t steps() = 0;
  // Of the weights, which all shards have.
  virtual uint64_t version() = 0;
  virtual uint64_t discarded() = 0;

  // The compute workers that get the weights of `version`, ascending; the same for all shards.
  virtual std::vector<uint64_t> Members(uint64_t version) = 0;
  // Whether a compute worker is there. One that is to come and never will has gone.
  virtual Presence PresenceOf(uint64_t worker) = 0;
  // A compute worker leaves: what it has not handed over is done by others.
  virtual void Leave(uint64_t worker) = 0;
  // A worker lives; and once somebody says so of it, it has to be said again within every lease.
  // Numbers of update workers come after those of all compute workers that ever come.
  virtual void Beat(uint64_t worker) = 0;
  // Takes for dead whose leases have run out; called now and then. Where an update worker that has
  // updates to make is dead, the run is to begin again: workers end as soon as they see it.
  virtual void CheckLeases() = 0;
  virtual bool restarting() = 0;
  // All of them have: Rewind is next. The update worker that is dead.
  virtual std::optional<uint64_t> RestartDue() = 0;

  // How full a shard's buffer of gradients is, 0 to 1.
  virtual void NoteFill(double fill) = 0;

  // Shard `shard` has made an update; the last one makes the next version, of which compute workers
  // are told.
  virtual void Updated(size_t shard) = 0;

  // The squared norm of a shard's part of the mean gradient of `step`; the last of `shards` makes
  // the sample.
  virtual void AddSquaredNorm(uint64_t step, double squares, size_t shards) = 0;

  // Workers that are there from the first step on say when they are ready: then the run starts. All
  // say when they have ended, those too that never came.
  virtual void Ready() = 0;
  virtual bool started() = 0;
  virtual void Ended() = 0;

  // A step was made; told once, by update worker 0.
  virtual void Tell(const StepRecord& record) = 0;

  // Where the data of `version` ends; asked by who has made it.
  virtual DataPosition PositionAt(uint64_t version) = 0;

  // The run begins, or begins again, after `step` updates with the data of `position`: nothing that
  // was computed since counts. No worker is there.
  virtual void Rewind(uint64_t step, const DataPosition& position) = 0;

  // The run ends after the current step.
  virtual void StopAfterCurrentStep() = 0;

  // The run ends with this message (the first one counts); all workers are woken.
  virtual void Fail(const std::string& message) = 0;
  virtual bool failed() = 0;
  virtual std::string failure() = 0;  // "": none
};

}  // namespace poolscope::trainer
