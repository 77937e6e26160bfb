#include "advisor/admission_state.h"

#include <algorithm>

namespace poolscope {

AdmissionState::Start AdmissionState::TryStart(int version, int& attempt) {
  const int64_t batch = model_.micro_batches;
  const int64_t in_flight = started_ - applied_ - discarded_;
  if (in_flight >= (model_.lag_bound + 1) * batch) return Start::kNoCredit;
  const int64_t best_step = (admitted_ + static_cast<int64_t>(open_.size())) / batch;
  if (model_.stale == StalePolicy::kWait && best_step > version + model_.lag_bound) {
    return Start::kNeedsWeights;
  }
  if (!again_.empty()) {
    if (version <= again_.front()) return Start::kNeedsWeights;
    again_.pop_front();
  }
  attempt = static_cast<int>(started_++);
  open_.push_back(attempt);
  attempts_.push_back({version, false, {}});
  return Start::kStarted;
}

AdmissionState::Decision AdmissionState::Ask(int number) {
  Attempt& attempt = attempts_[static_cast<size_t>(number)];
  if (!attempt.arrived) {
    attempt.arrived = true;
    Decide(attempt);
    if (attempt.decision.verdict == Verdict::kUndecided) {
      deferred_.push_back(number);
    } else {
      DecideDeferred();
    }
  }
  return attempt.decision;
}

void AdmissionState::Close(const Attempt& attempt) {
  const auto number = static_cast<int>(&attempt - attempts_.data());
  open_.erase(std::find(open_.begin(), open_.end(), number));
}

void AdmissionState::Decide(Attempt& attempt) {
  const int64_t step = admitted_ / model_.micro_batches;
  const bool stale = step - attempt.version > model_.lag_bound;
  const bool refused =
      model_.stale == StalePolicy::kDrop || model_.stale == StalePolicy::kRecompute;
  attempt.decision.step = static_cast<int>(step);
  if (stale && refused) {
    attempt.decision.verdict = Verdict::kDiscarded;
    Close(attempt);
    ++discarded_;
    if (model_.stale == StalePolicy::kRecompute) again_.push_back(attempt.version);
  } else if (model_.stale != StalePolicy::kWait || OthersKeepTheirBound(attempt)) {
    attempt.decision.verdict = Verdict::kAccepted;
    Close(attempt);
    ++admitted_;
  }
}

bool AdmissionState::OthersKeepTheirBound(const Attempt& attempt) const {
  std::vector<int64_t> last_steps;
  for (int number : open_) {
    const Attempt& other = attempts_[static_cast<size_t>(number)];
    if (&other != &attempt) last_steps.push_back(other.version + model_.lag_bound);
  }
  std::sort(last_steps.begin(), last_steps.end());
  for (size_t i = 0; i < last_steps.size(); ++i) {
    const int64_t step = (admitted_ + 1 + static_cast<int64_t>(i)) / model_.micro_batches;
    if (step > last_steps[i]) return false;
  }
  return true;
}

void AdmissionState::DecideDeferred() {
  for (size_t i = 0; i < deferred_.size();) {
    Attempt& attempt = attempts_[static_cast<size_t>(deferred_[i])];
    Decide(attempt);
    if (attempt.decision.verdict == Verdict::kUndecided) {
      ++i;
    } else {
      deferred_.erase(deferred_.begin() + static_cast<std::ptrdiff_t>(i));
      i = 0;
    }
  }
}

}  // namespace poolscope
