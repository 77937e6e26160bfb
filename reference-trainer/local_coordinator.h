#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "reference-trainer/annotations.h"
#include "reference-trainer/coordinator.h"
#include "reference-trainer/step_shares.h"
#include "reference-trainer/version_clock.h"

namespace poolscope::trainer {

// The coordinator, in the process where it is.
class LocalCoordinator : public Coordinator {
 public:
  // What changes is told to the workers by these; they outlive the coordinator, as do `annotations`
  // and `journal`.
  struct Wakers {
    std::function<void()> compute, update;
    std::function<void(uint64_t worker)> gone;  // a compute worker takes no weights any more
  };
  LocalCoordinator(const Options& options, const Annotations& annotations, Journal& journal,
                   Wakers wakers);

  std::optional<StepPlan> BeginStep(uint64_t step) override;
  Admission::Attempt TryStart(uint64_t worker, uint64_t version) override;
  bool HandedOver(uint64_t attempt) override;
  Admission::Decision Ask(uint64_t attempt) override;
  uint64_t steps() override { return asynchronous_ ? admission_.steps() : shares_.steps(); }
  uint64_t version() override { return clock_.version(); }
  uint64_t discarded() override { return admission_.discarded(); }
  std::vector<uint64_t> Members(uint64_t version) override;
  Presence PresenceOf(uint64_t worker) override;
  void Leave(uint64_t worker) override;
  void Beat(uint64_t worker) override;
  void CheckLeases() override;
  bool restarting() override { return dead_ != kNobody; }
  std::optional<uint64_t> RestartDue() override;
  void NoteFill(double fill) override { pace_.NoteFill(fill); }
  void Updated(size_t shard) override;
  void AddSquaredNorm(uint64_t step, double squares, size_t shards) override;
  void Tell(const StepRecord& record) override { journal_.Add(record); }
  DataPosition PositionAt(uint64_t version) override;
  void Rewind(uint64_t step, const DataPosition& position) override;
  void StopAfterCurrentStep() override;
  void Ready() override;
  bool started() override { return to_be_ready_ == 0; }
  void Ended() override;  // the last one closes the journal, unless the run is to begin again
  bool ended() const { return to_end_ == 0; }
  void Fail(const std::string& message) override;
  bool failed() override { return failed_; }
  std::string failure() override;

 private:
  static constexpr uint64_t kNobody = UINT64_MAX;

  void SampleCredits();
  void NoteMembership();
  // Its work becomes that of the others; the run fails where there are none.
  void Drop(uint64_t worker, const char* how);
  uint64_t DeadUpdateWorker();  // or kNobody

  const bool asynchronous_;
  const int64_t lease_ns_;
  const Annotations& annotations_;
  const Wakers wakers_;
  // Own synchronisation.
  Journal& journal_;
  Pace pace_;
  Membership membership_;
  StepShares shares_;    // synchronous and monolithic
  Admission admission_;  // asynchronous
  VersionClock clock_;
  const uint64_t workers_;                      // of both pools that ever come
  std::atomic<uint64_t> first_step_ = 0;        // that the run began, or began again, with
  std::atomic<uint64_t> changes_ = 0;           // of membership_, that were noted
  std::atomic<uint64_t> to_be_ready_, to_end_;  // workers
  std::atomic<uint64_t> dead_ = kNobody;        // the update worker for whom the run begins again
  std::atomic<bool> failed_ = false;

  std::mutex mutex_;
  std::string failure_;  // guarded by mutex_
  struct Norm {
    double squares = 0;
    size_t shards = 0;
  };
  std::map<uint64_t, Norm> norms_;      // by step; guarded by mutex_
  std::map<size_t, int64_t> beats_ns_;  // of update workers that have had one; guarded by mutex_
};

}  // namespace poolscope::trainer
