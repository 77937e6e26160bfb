#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "reference-trainer/admission.h"
#include "reference-trainer/membership.h"
#include "reference-trainer/pace.h"

namespace poolscope::trainer {

// The books of synchronous training: who computes which micro-batches of a step. Member i of C
// takes the micro-batches m with m mod C = i as one share, whose gradients it sends as one sum.
// What a worker leaves undone when it goes is done by others, one micro-batch a share. As
// Admission: one for all workers, any thread may call, nothing waits.
class StepShares {
 public:
  struct Rules {
    uint64_t steps = 0;
    uint64_t shards = 1;     // update workers
    bool handovers = false;  // see Admission
  };
  StepShares(Rules rules, Pace& pace, Membership& membership)
      : rules_(rules), pace_(pace), membership_(membership), steps_(rules.steps) {}

  // Update workers and monolithic runs, at the beginning of each step. False: the run ends before
  // it.
  bool Begin(uint64_t step);

  // A present compute worker that holds weights of `version` asks for its share of that step, and
  // again for those of others. kNeedsWeights: there is none (yet).
  Admission::Attempt TryStart(uint64_t worker, uint64_t version);

  // See Admission.
  bool HandedOver(uint64_t number);
  Admission::Decision Ask(uint64_t number);
  std::vector<Admission::Lost> Void(uint64_t worker);
  // The run begins, or begins again, with `step`.
  void Rewind(uint64_t step);
  void StopAfterCurrentStep();
  uint64_t steps() const;

 private:
  struct Share {
    uint64_t worker = 0;
    uint64_t first = 0, stride = 1, micro_batches = 0;
    uint64_t step = 0;
    bool handed_over = false;
    uint64_t answers = 0;  // shards that know that it counts
  };

  void Open(uint64_t step);
  void LeaveToOthers(const Share& share);
  Admission::Attempt Start(uint64_t worker, const Share& share);

  const Rules rules_;
  Pace& pace_;
  Membership& membership_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  uint64_t steps_;
  uint64_t begun_ = 0;  // steps that any worker has begun
  uint64_t started_ = 0;
  StepPlan plan_;                  // of the newest step, begun_ − 1
  std::map<uint64_t, Share> own_;  // by worker: its share of that step, not yet taken
  std::deque<uint64_t> left_;      // micro-batches of it that a worker that has gone left undone
  // By number, until every shard knows that it counts, or nobody asks any more.
  std::map<uint64_t, Share> taken_;
};

}  // namespace poolscope::trainer
