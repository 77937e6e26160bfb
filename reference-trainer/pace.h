#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>

#include "reference-trainer/step_plan.h"

namespace poolscope::trainer {

// Decides the plan of each step. Any thread may call; nothing here waits.
//
//   warm-up           steps before `warm_up_steps`: lag bound 0, and a learning rate that grows
//   from
//                     warm_up_rate to 1 in equal parts
//   adaptive updates  each tenth of the steps: micro-batches × clamp(0.1 ÷ change, ½, 2), where
//                     change = |mean norm of the gradient in the tenth before ÷ that of the one
//                     before it − 1|: few while the gradient changes, many once it is steady
//   dynamic batch     sequences × (0.75 + 0.5 × fill), fill being that of the gradients' buffers
//                     since the plan before: larger micro-batches where gradients pile up
class Pace {
 public:
  struct Rules {
    uint64_t steps = 1;
    uint64_t micro_batches = 1;
    uint64_t sequences = 1;
    uint64_t lag_bound = 0;
    uint64_t warm_up_steps = 0;
    double warm_up_rate = 1;
    bool adaptive_updates = false;
    uint64_t adaptive_min = 1, adaptive_max = 1;  // micro-batches
    bool dynamic_batch = false;
  };
  explicit Pace(const Rules& rules);

  // Sequences where the buffers are `fill` full.
  static uint64_t Sequences(uint64_t usual, double fill);

  // Decided when first asked for, together with all before it. Steps may be planned beyond the last
  // one.
  StepPlan Plan(uint64_t step);

  // Nobody asks for the plans of earlier steps again.
  void Forget(uint64_t before);

  // The norm of the mean gradient of a step that was made. A step is never planned with the norm of
  // the one just before it, which not all shards of a synchronous run know then.
  void NoteNorm(uint64_t step, double norm);

  // How full a buffer of gradients was, 0 to 1.
  void NoteFill(double fill);

 private:
  struct Mean {
    double sum = 0;
    uint64_t count = 0;
    double value() const { return sum / static_cast<double>(count); }
  };

  StepPlan Next();  // mutex_ is held
  uint64_t AdaptedMicroBatches(uint64_t step, uint64_t micro_batches) const;

  const Rules rules_;
  const uint64_t period_;  // steps between two looks at the norm
  std::mutex mutex_;
  // Guarded by mutex_:
  uint64_t next_step_ = 0;
  StepPlan last_;
  std::deque<StepPlan> plans_;      // of the steps up to next_step_, without those forgotten
  std::map<uint64_t, Mean> norms_;  // by step ÷ period_, the newest two and what comes
  Mean fill_;
};

}  // namespace poolscope::trainer
