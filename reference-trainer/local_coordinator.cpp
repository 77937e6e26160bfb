#include "reference-trainer/local_coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "reference-trainer/timing.h"

namespace poolscope::trainer {
namespace {

// A gradient that is late finds the plan of the version that it was computed with.
constexpr uint64_t kPlansKept = uint64_t{1} << 17;

Pace::Rules PaceOf(const Options& options) {
  const ScheduleOptions& schedule = options.schedule;
  Pace::Rules rules;
  rules.steps = options.steps;
  rules.micro_batches = options.micro_batches;
  rules.sequences = options.model.batch;
  rules.lag_bound = options.mode == Mode::kAsync ? options.lag_bound : 0;
  rules.warm_up_steps = schedule.warm_up_steps;
  rules.warm_up_rate = schedule.warm_up_rate;
  rules.adaptive_updates = schedule.adaptive_updates;
  rules.adaptive_min = schedule.AdaptiveMin(options.micro_batches);
  rules.adaptive_max = schedule.AdaptiveMax(options.micro_batches);
  rules.dynamic_batch = schedule.dynamic_batch;
  return rules;
}

}  // namespace

LocalCoordinator::LocalCoordinator(const Options& options, const Annotations& annotations,
                                   Journal& journal, Wakers wakers)
    : asynchronous_(options.mode == Mode::kAsync),
      lease_ns_(std::llround(options.schedule.lease_seconds * 1e9)),
      annotations_(annotations),
      wakers_(std::move(wakers)),
      journal_(journal),
      pace_(PaceOf(options)),
      membership_(options.mode == Mode::kMonolithic ? 1 : options.compute_workers,
                  options.schedule.joins, options.schedule.leaves),
      shares_({options.steps, options.update_workers, options.schedule.DepartsInMidStep()}, pace_,
              membership_),
      admission_({options.steps, options.stale, options.update_workers,
                  options.schedule.DepartsInMidStep()},
                 pace_),
      clock_(options.mode == Mode::kMonolithic ? 1 : options.update_workers),
      workers_(options.mode == Mode::kMonolithic ? 1
                                                 : membership_.workers() + options.update_workers),
      to_be_ready_(options.compute_workers + options.update_workers),
      to_end_(workers_) {}

void LocalCoordinator::SampleCredits() {
  poolscope_sample(annotations_.credits, static_cast<double>(admission_.credits()));
}

std::optional<StepPlan> LocalCoordinator::BeginStep(uint64_t step) {
  if (failed_ || (asynchronous_ ? step >= admission_.steps() : !shares_.Begin(step)))
    return std::nullopt;
  NoteMembership();
  return pace_.Plan(step);
}

Admission::Attempt LocalCoordinator::TryStart(uint64_t worker, uint64_t version) {
  Admission::Attempt attempt;
  attempt.start = Admission::Start::kGone;
  if (membership_.Of(worker) == Presence::kGone) return attempt;
  attempt.start = Admission::Start::kNeedsWeights;
  if (version < std::max<uint64_t>(first_step_, membership_.FirstStep(worker))) return attempt;
  if (!asynchronous_) {
    attempt = shares_.TryStart(worker, version);
    NoteMembership();
    return attempt;
  }
  attempt = admission_.TryStart(worker, version);
  if (attempt.start == Admission::Start::kStarted) SampleCredits();
  return attempt;
}

bool LocalCoordinator::HandedOver(uint64_t attempt) {
  const bool counts = asynchronous_ ? admission_.HandedOver(attempt) : shares_.HandedOver(attempt);
  wakers_.update();
  return counts;
}

Admission::Decision LocalCoordinator::Ask(uint64_t attempt) {
  if (!asynchronous_) return shares_.Ask(attempt);
  const uint64_t before = admission_.discarded();
  const Admission::Decision decision = admission_.Ask(attempt);
  if (admission_.discarded() != before) {
    SampleCredits();
    wakers_.compute();
  }
  return decision;
}

std::vector<uint64_t> LocalCoordinator::Members(uint64_t version) {
  std::vector<uint64_t> members = membership_.Members(version);
  NoteMembership();
  return members;
}

Presence LocalCoordinator::PresenceOf(uint64_t worker) {
  const Presence presence = membership_.Of(worker);
  const bool never = membership_.FirstStep(worker) >= steps() || failed_;
  return presence == Presence::kAway && never ? Presence::kGone : presence;
}

void LocalCoordinator::NoteMembership() {
  const uint64_t changes = membership_.changes();
  if (changes_.exchange(changes) == changes) return;
  const uint64_t present = membership_.present();
  wakers_.compute();
  if (present == 0 && clock_.version() < steps()) {
    Fail(fmt::format("no compute worker is left after {} of {} steps", clock_.version(), steps()));
  }
}

void LocalCoordinator::Leave(uint64_t worker) {
  if (membership_.Drop(worker)) Drop(worker, "left");
}

void LocalCoordinator::Beat(uint64_t worker) {
  if (worker < membership_.workers()) return membership_.Beat(worker, NowNs());
  std::lock_guard lock(mutex_);
  beats_ns_[worker - membership_.workers()] = NowNs();
}

uint64_t LocalCoordinator::DeadUpdateWorker() {
  std::lock_guard lock(mutex_);
  for (const auto& [shard, beat_ns] : beats_ns_) {
    if (NowNs() - beat_ns >= lease_ns_ && clock_.version_of(shard) < steps()) return shard;
  }
  return kNobody;
}

std::optional<uint64_t> LocalCoordinator::RestartDue() {
  return restarting() && to_end_ == 0 ? std::optional<uint64_t>(dead_) : std::nullopt;
}

void LocalCoordinator::CheckLeases() {
  if (!restarting() && !failed_) {
    dead_ = DeadUpdateWorker();
    if (restarting()) {
      wakers_.compute();
      wakers_.update();
    }
  }
  for (const uint64_t worker : membership_.Expired(NowNs(), lease_ns_)) {
    if (membership_.Drop(worker)) Drop(worker, "died");
  }
}

void LocalCoordinator::Drop(uint64_t worker, const char* how) {
  const auto lost = asynchronous_ ? admission_.Void(worker) : shares_.Void(worker);
  for (const Admission::Lost& each : lost) {
    poolscope_transfer discard = {};
    discard.source = worker;
    discard.destination = discard.sequence = discard.applied_version = POOLSCOPE_NO_VALUE;
    discard.step = each.step;
    discard.micro_batch = each.micro_batch;
    discard.version = each.version;
    poolscope_discard(annotations_.gradients, &discard);
  }
  if (asynchronous_) SampleCredits();
  wakers_.gone(worker);
  wakers_.update();
  wakers_.compute();  // there may be work for them
  if (membership_.present() == 0 && clock_.version() < steps()) {
    Fail(fmt::format("compute worker {}, the last one, {} after {} of {} steps", worker, how,
                     clock_.version(), steps()));
  }
  NoteMembership();
}

void LocalCoordinator::Updated(size_t shard) {
  if (!clock_.Advance(shard)) return;
  pace_.Forget(clock_.version() - std::min(clock_.version(), kPlansKept));
  membership_.Forget(clock_.version());
  if (asynchronous_) {
    admission_.Updated();
    SampleCredits();
  }
  wakers_.compute();
}

void LocalCoordinator::AddSquaredNorm(uint64_t step, double squares, size_t shards) {
  std::lock_guard lock(mutex_);
  Norm& norm = norms_[step];
  norm.squares += squares;
  if (++norm.shards < shards) return;
  poolscope_sample(annotations_.gradient_norm, std::sqrt(norm.squares));
  pace_.NoteNorm(step, std::sqrt(norm.squares));
  norms_.erase(step);
}

DataPosition LocalCoordinator::PositionAt(uint64_t version) {
  if (asynchronous_) return admission_.PositionAt(version);
  return {pace_.Plan(version).first, {}};
}

void LocalCoordinator::Rewind(uint64_t step, const DataPosition& position) {
  first_step_ = step;
  membership_.Rewind(step);
  shares_.Rewind(step);
  admission_.Rewind(step, position);
  clock_.Rewind(step);
  to_end_ = workers_;
  dead_ = kNobody;
  std::lock_guard lock(mutex_);
  norms_.clear();
  beats_ns_.clear();
}

void LocalCoordinator::StopAfterCurrentStep() {
  shares_.StopAfterCurrentStep();
  admission_.StopAfterCurrentStep();
  wakers_.compute();
}

void LocalCoordinator::Ready() {
  if (--to_be_ready_ != 0) return;
  wakers_.compute();
  wakers_.update();
}

void LocalCoordinator::Ended() {
  if (--to_end_ != 0 || restarting()) return;
  journal_.Close();
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
