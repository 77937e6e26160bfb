#include "reference-trainer/membership.h"

#include <algorithm>

namespace poolscope::trainer {

Membership::Membership(uint64_t workers, const std::vector<Arrival>& joins,
                       const std::vector<Departure>& leaves)
    : workers_(workers) {
  for (Worker& worker : workers_) worker.presence = Presence::kPresent;
  std::vector<Arrival> by_step = joins;
  std::stable_sort(by_step.begin(), by_step.end(),
                   [](const Arrival& a, const Arrival& b) { return a.step < b.step; });
  for (const Arrival& join : by_step) {
    Worker worker;
    worker.first_step = join.step;
    workers_.insert(workers_.end(), join.workers, worker);
  }
  for (const Departure& leave : leaves) {
    if (leave.progress == 0) workers_[leave.worker].end_step = leave.step;
  }
}

std::vector<uint64_t> Membership::Members(uint64_t step) {
  std::lock_guard lock(mutex_);
  while (next_step_ <= step) {
    std::vector<uint64_t>& members = members_[next_step_];
    for (uint64_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = workers_[i];
      if (worker.presence == Presence::kAway && worker.first_step <= next_step_) {
        Set(worker, Presence::kPresent);
      }
      if (worker.end_step <= next_step_) Set(worker, Presence::kGone);
      if (worker.presence == Presence::kPresent) members.push_back(i);
    }
    ++next_step_;
  }
  const auto found = members_.find(step);
  return found == members_.end() ? std::vector<uint64_t>() : found->second;
}

void Membership::Rewind(uint64_t step) {
  std::lock_guard lock(mutex_);
  next_step_ = step;
  members_.clear();
  for (Worker& worker : workers_) {
    if (worker.presence == Presence::kPresent && worker.first_step > step) {
      Set(worker, Presence::kAway);
    }
  }
}

void Membership::Forget(uint64_t before) {
  std::lock_guard lock(mutex_);
  members_.erase(members_.begin(), members_.lower_bound(before));
}

Presence Membership::Of(uint64_t worker) const {
  std::lock_guard lock(mutex_);
  return workers_[worker].presence;
}

uint64_t Membership::present() const {
  std::lock_guard lock(mutex_);
  return static_cast<uint64_t>(
      std::count_if(workers_.begin(), workers_.end(),
                    [](const Worker& worker) { return worker.presence == Presence::kPresent; }));
}

uint64_t Membership::changes() const {
  std::lock_guard lock(mutex_);
  return changes_;
}

void Membership::Set(Worker& worker, Presence presence) {
  changes_ += worker.presence != presence;
  worker.presence = presence;
}

bool Membership::Drop(uint64_t worker) {
  std::lock_guard lock(mutex_);
  const bool present = workers_[worker].presence == Presence::kPresent;
  Set(workers_[worker], Presence::kGone);
  return present;
}

void Membership::Beat(uint64_t worker, int64_t now_ns) {
  std::lock_guard lock(mutex_);
  workers_[worker].beat_ns = now_ns;
}

std::vector<uint64_t> Membership::Expired(int64_t now_ns, int64_t lease_ns) const {
  std::lock_guard lock(mutex_);
  std::vector<uint64_t> expired;
  for (uint64_t i = 0; i < workers_.size(); ++i) {
    const Worker& worker = workers_[i];
    if (worker.presence != Presence::kPresent || worker.beat_ns == 0) continue;
    if (now_ns - worker.beat_ns >= lease_ns) expired.push_back(i);
  }
  return expired;
}

}  // namespace poolscope::trainer
