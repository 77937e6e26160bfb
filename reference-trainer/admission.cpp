#include "reference-trainer/admission.h"

#include <algorithm>

namespace poolscope::trainer {

int64_t Admission::Credits() const {
  const auto limit = static_cast<int64_t>((rules_.lag_bound + 1) * rules_.micro_batches);
  return limit - static_cast<int64_t>(started_ - applied_ - discarded_);
}

Admission::Attempt Admission::TryStart(uint64_t version) {
  std::lock_guard lock(mutex_);
  Attempt attempt;
  attempt.version = version;
  if (admitted_ + undecided_ >= steps_ * rules_.micro_batches) {
    attempt.start = Start::kNothingLeft;
    return attempt;
  }
  if (Credits() <= 0) {
    attempt.start = Start::kNoCredit;
    return attempt;
  }
  const uint64_t best_case = (admitted_ + undecided_) / rules_.micro_batches;
  const bool too_old = rules_.stale == Stale::kWait && best_case > version + rules_.lag_bound;
  const bool again_too_soon = !again_.empty() && version <= again_.front().version;
  if (too_old || again_too_soon) {
    attempt.start = Start::kNeedsWeights;
    return attempt;
  }
  if (again_.empty()) {
    attempt.data = next_data_++;
  } else {
    attempt.data = again_.front().data;
    again_.pop_front();
  }
  attempt.start = Start::kStarted;
  attempt.number = started_++;
  ++undecided_;
  InFlight& entry = in_flight_[attempt.number];
  entry.data = attempt.data;
  entry.version = version;
  return attempt;
}

Admission::Decision Admission::Ask(uint64_t number) {
  std::lock_guard lock(mutex_);
  const auto found = in_flight_.find(number);
  if (found == in_flight_.end()) return {};
  InFlight& attempt = found->second;
  if (!attempt.arrived) {
    attempt.arrived = true;
    Decide(attempt);
    if (attempt.decision.verdict == Verdict::kDeferred) {
      deferred_.push_back(number);
    } else {
      AdmitDeferred();
    }
  }
  const Decision decision = attempt.decision;
  if (decision.verdict != Verdict::kDeferred && ++attempt.answers == rules_.shards) {
    in_flight_.erase(found);
  }
  return decision;
}

void Admission::Decide(InFlight& attempt) {
  const uint64_t step = admitted_ / rules_.micro_batches;
  Decision decision;
  decision.step = step;
  decision.lag = step > attempt.version ? step - attempt.version : 0;
  const bool stale = decision.lag > rules_.lag_bound;
  const bool refused = rules_.stale == Stale::kDrop || rules_.stale == Stale::kRecompute;
  if (step >= steps_ || (stale && refused)) {
    decision.verdict = Verdict::kDiscarded;
    --undecided_;
    ++discarded_;
    if (rules_.stale == Stale::kRecompute) again_.push_back({attempt.data, attempt.version});
  } else if (rules_.stale == Stale::kWait && !OthersKeepTheirBound(attempt)) {
    decision.verdict = Verdict::kDeferred;
  } else {
    decision.verdict = Verdict::kAccepted;
    --undecided_;
    ++admitted_;
  }
  attempt.decision = decision;
}

// Whether everything else that is undecided still has a place within its bound if `attempt` takes
// the next one: the tightest bounds first.
bool Admission::OthersKeepTheirBound(const InFlight& attempt) const {
  std::vector<uint64_t> last_steps;
  for (const auto& [number, other] : in_flight_) {
    if (&other != &attempt && other.decision.verdict == Verdict::kDeferred) {
      last_steps.push_back(other.version + rules_.lag_bound);
    }
  }
  std::sort(last_steps.begin(), last_steps.end());
  for (size_t i = 0; i < last_steps.size(); ++i) {
    if ((admitted_ + 1 + i) / rules_.micro_batches > last_steps[i]) return false;
  }
  return true;
}

void Admission::AdmitDeferred() {
  for (size_t i = 0; i < deferred_.size();) {
    InFlight& attempt = in_flight_[deferred_[i]];
    Decide(attempt);
    if (attempt.decision.verdict == Verdict::kDeferred) {
      ++i;
    } else {
      deferred_.erase(deferred_.begin() + static_cast<std::ptrdiff_t>(i));
      i = 0;
    }
  }
}

void Admission::Updated() {
  std::lock_guard lock(mutex_);
  applied_ += rules_.micro_batches;
}

void Admission::StopAfterCurrentStep() {
  std::lock_guard lock(mutex_);
  steps_ = std::min(steps_, admitted_ / rules_.micro_batches + 1);
}

uint64_t Admission::steps() const {
  std::lock_guard lock(mutex_);
  return steps_;
}

int64_t Admission::credits() const {
  std::lock_guard lock(mutex_);
  return Credits();
}

uint64_t Admission::discarded() const {
  std::lock_guard lock(mutex_);
  return discarded_;
}

}  // namespace poolscope::trainer
