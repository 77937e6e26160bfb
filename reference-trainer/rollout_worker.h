#pragma once

#include <cstdint>
#include <vector>

#include "reference-trainer/compute_worker.h"

namespace poolscope::trainer {

// A worker of pool rollout: an engine that makes several sequences at once, of very different
// lengths, sends each on `samples` when it is done, and takes new weights in between two slices of
// tokens. A sequence is as old as the oldest weights that it was made with. One that would be
// refused for its age is not made to its end.
class RolloutWorker : public ComputeWorker {
 public:
  RolloutWorker(Job& job, size_t index) : ComputeWorker(job, index) {}

  void Run() override;

 private:
  struct Sequence {
    Admission::Attempt attempt;     // whose version is the oldest
    uint64_t length = 0, made = 0;  // tokens
  };

  // Begins sequences in the free slots; waits where none is being made. False: the run is over.
  bool Fill();
  void ThrowStaleAway();
  void Generate();  // a slice of tokens for all
  void SendDone();
  uint64_t LengthOf(const Admission::Attempt& attempt) const;

  std::vector<Sequence> active_;
};

}  // namespace poolscope::trainer
