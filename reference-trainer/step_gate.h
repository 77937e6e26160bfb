#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

namespace poolscope::trainer {

// How many steps a synchronous or monolithic run makes. All workers pass it at the beginning of
// each step, so that a stop in the middle ends all of them after the same one.
class StepGate {
 public:
  explicit StepGate(uint64_t steps) : steps_(steps) {}

  // False: the run ends before `step`.
  bool Begin(uint64_t step) {
    std::lock_guard lock(mutex_);
    if (step >= steps_) return false;
    begun_ = std::max(begun_, step + 1);
    return true;
  }

  // The run ends after the newest step that any worker has begun.
  void StopAfterCurrentStep() {
    std::lock_guard lock(mutex_);
    steps_ = std::min(steps_, begun_);
  }

 private:
  std::mutex mutex_;
  uint64_t steps_;      // guarded by mutex_
  uint64_t begun_ = 0;  // guarded by mutex_
};

}  // namespace poolscope::trainer
