#include "reference-trainer/admission.h"

#include <algorithm>

namespace poolscope::trainer {

int64_t Admission::Credits() const {
  uint64_t limit = 0;
  for (uint64_t step = version_; step <= version_ + LagBound(version_); ++step) {
    limit += pace_.Plan(step).micro_batches;
  }
  return static_cast<int64_t>(limit) -
         static_cast<int64_t>(started_ - applied_ - discarded_ - void_);
}

uint64_t Admission::StepOfPlace(uint64_t n) const {
  uint64_t step = step_;
  for (n += filled_; n >= pace_.Plan(step).micro_batches; ++step) {
    n -= pace_.Plan(step).micro_batches;
  }
  return step;
}

bool Admission::Waits(uint64_t version) const {
  return rules_.stale == Stale::kWait || pace_.Plan(version).warm_up;
}

Admission::Attempt Admission::TryStart(uint64_t worker, uint64_t version) {
  std::lock_guard lock(mutex_);
  Attempt attempt;
  attempt.version = version;
  if (step_ >= steps_) return attempt;
  const uint64_t best_case = StepOfPlace(undecided_);
  if (best_case >= steps_) return attempt;
  if (Credits() <= 0) {
    attempt.start = Start::kNoCredit;
    return attempt;
  }
  const bool too_old = Waits(version) && best_case > version + LagBound(version);
  const bool again_too_soon =
      !again_.empty() && again_.front().version && version <= *again_.front().version;
  if (too_old || again_too_soon) {
    attempt.start = Start::kNeedsWeights;
    return attempt;
  }
  if (again_.empty()) {
    attempt.data = next_data_++;
    settled_.push_back(kOpen);
  } else {
    attempt.data = again_.front().data;
    again_.pop_front();
  }
  attempt.start = Start::kStarted;
  attempt.number = started_++;
  if (best_case > named_step_) {
    named_step_ = best_case;
    named_ = 0;
  }
  attempt.step = named_step_;
  attempt.micro_batch = named_++;
  attempt.sequences = pace_.Plan(best_case).sequences;
  ++undecided_;
  InFlight& entry = in_flight_[attempt.number];
  entry.worker = worker;
  entry.data = attempt.data;
  entry.version = version;
  entry.step = attempt.step;
  entry.micro_batch = attempt.micro_batch;
  entry.handed_over = !rules_.handovers;
  return attempt;
}

bool Admission::HandedOver(uint64_t number) {
  std::lock_guard lock(mutex_);
  const auto found = in_flight_.find(number);
  if (found == in_flight_.end()) return false;
  found->second.handed_over = true;
  return true;
}

std::vector<Admission::Lost> Admission::Void(uint64_t worker) {
  std::lock_guard lock(mutex_);
  std::vector<Lost> lost;
  std::erase_if(in_flight_, [&](const auto& entry) {
    const InFlight& attempt = entry.second;
    if (attempt.worker != worker || attempt.handed_over) return false;
    lost.push_back({attempt.step, attempt.micro_batch, attempt.version});
    again_.push_front({attempt.data, std::nullopt});
    ++void_;
    --undecided_;
    return true;
  });
  AdmitDeferred();
  return lost;
}

Admission::Decision Admission::Ask(uint64_t number) {
  std::lock_guard lock(mutex_);
  const auto found = in_flight_.find(number);
  if (found == in_flight_.end()) return {Verdict::kDiscarded, step_, 0};  // void
  InFlight& attempt = found->second;
  if (!attempt.handed_over) return {};
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
  const uint64_t step = step_;
  Decision decision;
  decision.step = step;
  decision.lag = step > attempt.version ? step - attempt.version : 0;
  const bool stale = decision.lag > LagBound(attempt.version);
  const bool refused = rules_.stale == Stale::kDrop || rules_.stale == Stale::kRecompute;
  if (step >= steps_ || (stale && refused)) {
    decision.verdict = Verdict::kDiscarded;
    --undecided_;
    ++discarded_;
    if (rules_.stale == Stale::kRecompute) {
      again_.push_back({attempt.data, attempt.version});
    } else if (step < steps_) {
      settled_[attempt.data - settled_from_] = 0;
    }
  } else if (Waits(attempt.version) && !OthersKeepTheirBound(attempt)) {
    decision.verdict = Verdict::kDeferred;
  } else {
    decision.verdict = Verdict::kAccepted;
    --undecided_;
    settled_[attempt.data - settled_from_] = step;
    if (++filled_ == pace_.Plan(step_).micro_batches) {
      ++step_;
      filled_ = 0;
    }
  }
  attempt.decision = decision;
}

// Whether everything else that is undecided still has a place within its bound if `attempt` takes
// the next one: the tightest bounds first.
bool Admission::OthersKeepTheirBound(const InFlight& attempt) const {
  std::vector<uint64_t> last_steps;
  for (const auto& [number, other] : in_flight_) {
    if (&other != &attempt && other.decision.verdict == Verdict::kDeferred) {
      last_steps.push_back(other.version + LagBound(other.version));
    }
  }
  std::sort(last_steps.begin(), last_steps.end());
  for (size_t i = 0; i < last_steps.size(); ++i) {
    if (StepOfPlace(1 + i) > last_steps[i]) return false;
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
  applied_ += pace_.Plan(version_++).micro_batches;
  while (!settled_.empty() && settled_.front() < version_) {
    settled_.pop_front();
    ++settled_from_;
  }
}

DataPosition Admission::PositionAt(uint64_t version) const {
  std::lock_guard lock(mutex_);
  DataPosition position;
  position.next = settled_from_;
  for (size_t i = 0; i < settled_.size(); ++i) {
    if (settled_[i] >= version) continue;
    for (uint64_t open = position.next; open < settled_from_ + i; ++open) {
      position.open.push_back(open);
    }
    position.next = settled_from_ + i + 1;
  }
  return position;
}

void Admission::Rewind(uint64_t step, const DataPosition& position) {
  std::lock_guard lock(mutex_);
  step_ = version_ = named_step_ = step;
  filled_ = named_ = undecided_ = 0;
  applied_ = pace_.Plan(step).first;
  void_ = started_ - applied_ - discarded_;  // nothing is in flight; modulo 2^64
  in_flight_.clear();
  deferred_.clear();
  again_.clear();
  next_data_ = position.next;
  settled_from_ = position.open.empty() ? position.next : position.open.front();
  settled_.assign(position.next - settled_from_, 0);
  for (const uint64_t data : position.open) {
    settled_[data - settled_from_] = kOpen;
    again_.push_back({data, std::nullopt});
  }
}

void Admission::StopAfterCurrentStep() {
  std::lock_guard lock(mutex_);
  steps_ = std::min(steps_, step_ + 1);
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
