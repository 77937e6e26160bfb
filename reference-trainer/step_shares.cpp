#include "reference-trainer/step_shares.h"

#include <algorithm>

namespace poolscope::trainer {

bool StepShares::Begin(uint64_t step) {
  std::lock_guard lock(mutex_);
  if (step >= steps_) return false;
  Open(step);
  return true;
}

void StepShares::Open(uint64_t step) {
  if (step < begun_) return;
  begun_ = step + 1;
  plan_ = pace_.Plan(step);
  own_.clear();
  // Whose gradients others sent within a sum. All shards have done the step before the last one.
  std::erase_if(taken_, [&](const auto& taken) { return taken.second.step + 1 < step; });
  const std::vector<uint64_t> members = membership_.Members(step);
  for (uint64_t i = 0; i < std::min<uint64_t>(members.size(), plan_.micro_batches); ++i) {
    Share share;
    share.worker = members[i];
    share.step = step;
    share.first = i;
    share.stride = members.size();
    share.micro_batches = (plan_.micro_batches - i + members.size() - 1) / members.size();
    if (membership_.Of(members[i]) == Presence::kPresent) {
      own_[members[i]] = share;
    } else {  // gone since: Void has been, and knew nothing of this step
      LeaveToOthers(share);
    }
  }
}

Admission::Attempt StepShares::TryStart(uint64_t worker, uint64_t version) {
  std::lock_guard lock(mutex_);
  Admission::Attempt none;
  none.start = Admission::Start::kNothingLeft;
  if (version >= steps_) return none;
  Open(version);
  none.start = Admission::Start::kNeedsWeights;
  if (version != plan_.step) return none;
  if (const auto own = own_.find(worker); own != own_.end()) {
    const Share share = own->second;
    own_.erase(own);
    return Start(worker, share);
  }
  if (left_.empty()) return none;
  Share share;
  share.worker = worker;
  share.step = version;
  share.first = left_.front();
  share.micro_batches = 1;
  left_.pop_front();
  return Start(worker, share);
}

Admission::Attempt StepShares::Start(uint64_t worker, const Share& share) {
  Admission::Attempt attempt;
  attempt.start = Admission::Start::kStarted;
  attempt.number = started_++;
  attempt.version = attempt.step = share.step;
  attempt.micro_batch = share.first;
  attempt.stride = share.stride;
  attempt.micro_batches = share.micro_batches;
  attempt.data = plan_.first + share.first;
  attempt.sequences = plan_.sequences;
  attempt.shares = std::min<uint64_t>(share.stride, plan_.micro_batches);
  Share& taken = taken_[attempt.number] = share;
  taken.worker = worker;
  taken.handed_over = !rules_.handovers;
  return attempt;
}

bool StepShares::HandedOver(uint64_t number) {
  std::lock_guard lock(mutex_);
  const auto found = taken_.find(number);
  if (found == taken_.end()) return false;
  found->second.handed_over = true;
  return true;
}

Admission::Decision StepShares::Ask(uint64_t number) {
  std::lock_guard lock(mutex_);
  Admission::Decision decision;
  const auto found = taken_.find(number);
  decision.verdict = Admission::Verdict::kDiscarded;
  decision.step = begun_ - 1;
  if (found == taken_.end()) return decision;
  Share& share = found->second;
  decision.step = share.step;
  decision.verdict =
      share.handed_over ? Admission::Verdict::kAccepted : Admission::Verdict::kDeferred;
  if (share.handed_over && ++share.answers == rules_.shards) taken_.erase(found);
  return decision;
}

void StepShares::LeaveToOthers(const Share& share) {
  for (uint64_t i = 0; i < share.micro_batches; ++i) {
    left_.push_back(share.first + i * share.stride);
  }
}

std::vector<Admission::Lost> StepShares::Void(uint64_t worker) {
  std::lock_guard lock(mutex_);
  if (const auto own = own_.find(worker); own != own_.end()) {
    LeaveToOthers(own->second);
    own_.erase(own);
  }
  std::vector<Admission::Lost> lost;
  std::erase_if(taken_, [&](const auto& taken) {
    const Share& share = taken.second;
    if (share.worker != worker || share.handed_over) return false;
    LeaveToOthers(share);
    for (uint64_t i = 0; i < share.micro_batches; ++i) {
      lost.push_back({share.step, share.first + i * share.stride, share.step});
    }
    return true;
  });
  return lost;
}

void StepShares::Rewind(uint64_t step) {
  std::lock_guard lock(mutex_);
  begun_ = step;
  own_.clear();
  left_.clear();
  taken_.clear();
}

void StepShares::StopAfterCurrentStep() {
  std::lock_guard lock(mutex_);
  steps_ = std::min(steps_, begun_);
}

uint64_t StepShares::steps() const {
  std::lock_guard lock(mutex_);
  return steps_;
}

}  // namespace poolscope::trainer
