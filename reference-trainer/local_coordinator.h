#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "reference-trainer/annotations.h"
#include "reference-trainer/coordinator.h"
#include "reference-trainer/step_gate.h"
#include "reference-trainer/version_clock.h"

namespace poolscope::trainer {

// The coordinator of workers that are threads of this process.
class LocalCoordinator : public Coordinator {
 public:
  // What changes is told to the workers by these; they outlive the coordinator, as do `annotations`
  // and `journal`.
  struct Wakers {
    std::function<void()> compute, update;
  };
  LocalCoordinator(const Options& options, const Annotations& annotations, Journal& journal,
                   Wakers wakers);

  bool BeginStep(uint64_t step) override { return gate_.Begin(step); }
  Admission::Attempt TryStart(uint64_t version) override;
  Admission::Decision Ask(uint64_t attempt) override;
  uint64_t steps() override { return admission_.steps(); }
  uint64_t discarded() override { return admission_.discarded(); }
  void Updated(size_t shard) override;
  void AddSquaredNorm(uint64_t step, double squares, size_t shards) override;
  void Tell(const StepRecord& record) override { journal_.Add(record); }
  void StopAfterCurrentStep() override;
  void Fail(const std::string& message) override;
  bool failed() override { return failed_; }
  std::string failure() override;

 private:
  void SampleCredits();

  const bool asynchronous_;
  const Annotations& annotations_;
  const Wakers wakers_;
  // Own synchronisation.
  Journal& journal_;
  StepGate gate_;        // synchronous and monolithic
  Admission admission_;  // asynchronous
  VersionClock clock_;
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
