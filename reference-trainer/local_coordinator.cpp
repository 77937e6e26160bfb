#include "reference-trainer/local_coordinator.h"

#include <cmath>
#include <utility>

namespace poolscope::trainer {
namespace {

Admission::Rules RulesOf(const Options& options) {
  return {options.steps, options.micro_batches, options.lag_bound, options.stale,
          options.update_workers};
}

}  // namespace

LocalCoordinator::LocalCoordinator(const Options& options, const Annotations& annotations,
                                   Journal& journal, Wakers wakers)
    : asynchronous_(options.mode == Mode::kAsync),
      annotations_(annotations),
      wakers_(std::move(wakers)),
      journal_(journal),
      gate_(options.steps),
      admission_(RulesOf(options)),
      clock_(options.mode == Mode::kMonolithic ? 1 : options.update_workers) {}

void LocalCoordinator::SampleCredits() {
  poolscope_sample(annotations_.credits, static_cast<double>(admission_.credits()));
}

Admission::Attempt LocalCoordinator::TryStart(uint64_t version) {
  const Admission::Attempt attempt = admission_.TryStart(version);
  if (attempt.start == Admission::Start::kStarted) SampleCredits();
  return attempt;
}

Admission::Decision LocalCoordinator::Ask(uint64_t attempt) {
  const uint64_t before = admission_.discarded();
  const Admission::Decision decision = admission_.Ask(attempt);
  if (admission_.discarded() != before) {
    SampleCredits();
    wakers_.compute();
  }
  return decision;
}

void LocalCoordinator::Updated(size_t shard) {
  if (!clock_.Advance(shard) || !asynchronous_) return;
  admission_.Updated();
  SampleCredits();
  wakers_.compute();
}

void LocalCoordinator::AddSquaredNorm(uint64_t step, double squares, size_t shards) {
  std::lock_guard lock(mutex_);
  Norm& norm = norms_[step];
  norm.squares += squares;
  if (++norm.shards < shards) return;
  poolscope_sample(annotations_.gradient_norm, std::sqrt(norm.squares));
  norms_.erase(step);
}

void LocalCoordinator::StopAfterCurrentStep() {
  gate_.StopAfterCurrentStep();
  admission_.StopAfterCurrentStep();
  wakers_.compute();
}

void LocalCoordinator::Fail(const std::string& message) {
  {
    std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = message;
  }
  failed_ = true;
  wakers_.compute();
  wakers_.update();
}

std::string LocalCoordinator::failure() {
  std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace poolscope::trainer
