#pragma once

#include <cstdint>

namespace poolscope::trainer {

// What a step consists of. Decided once, by Pace; the same for all workers.
struct StepPlan {
  uint64_t step = 0;
  uint64_t first = 0;          // micro-batches of the steps before: where its data begins
  uint64_t micro_batches = 1;  // that its update takes in
  uint64_t sequences = 1;      // of a micro-batch
  uint64_t lag_bound = 0;      // of gradients computed with version `step` of the weights
  double rate = 1;             // factor of the learning rate
  bool warm_up = false;

  bool operator==(const StepPlan&) const = default;
};

}  // namespace poolscope::trainer
