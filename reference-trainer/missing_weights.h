#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reference-trainer/job.h"
#include "reference-trainer/retry.h"

namespace poolscope::trainer {

// What a compute worker does about weights that a best-effort link has lost: it asks for them again
// by their version, with back-off, up to the limit, which ends the run. On a reliable link, and
// where weights are fetched, it never has anything to do. For one worker's thread.
class MissingWeights {
 public:
  MissingWeights(Job& job, size_t worker);

  // The worker waits for a version of at least `wanted` of every shard; `held` has what it holds of
  // each. Asks for what is overdue; returns when to call again at the latest. Throws Abandoned.
  int64_t AskWhereDue(const std::vector<uint64_t>& held, uint64_t wanted);

 private:
  Job& job_;
  const size_t worker_;
  const std::optional<Patience> patience_;  // none: reliable
  uint64_t wanted_ = 0;
  std::optional<Retry> retry_;  // of wanted_
};

}  // namespace poolscope::trainer
