#include "reference-trainer/pace.h"

#include <algorithm>
#include <cmath>

namespace poolscope::trainer {
namespace {

constexpr double kSteadyChange = 0.1;  // of the norm: micro-batches stay as they are
constexpr double kBatchRange = 0.25;

}  // namespace

Pace::Pace(const Rules& rules)
    : rules_(rules), period_(std::max<uint64_t>(2, (rules.steps + 9) / 10)) {
  last_.micro_batches = rules.micro_batches;
  last_.sequences = rules.sequences;
}

uint64_t Pace::Sequences(uint64_t usual, double fill) {
  const double factor = 1 - kBatchRange + 2 * kBatchRange * fill;
  return static_cast<uint64_t>(std::llround(static_cast<double>(usual) * factor));
}

StepPlan Pace::Plan(uint64_t step) {
  std::lock_guard lock(mutex_);
  while (next_step_ <= step) {
    last_ = Next();
    plans_.push_back(last_);
    ++next_step_;
  }
  const uint64_t oldest = next_step_ - plans_.size();
  return plans_[step > oldest ? step - oldest : 0];
}

StepPlan Pace::Next() {
  StepPlan plan;
  plan.step = next_step_;
  plan.first = next_step_ == 0 ? 0 : last_.first + last_.micro_batches;
  plan.warm_up = plan.step < rules_.warm_up_steps;
  plan.lag_bound = plan.warm_up ? 0 : rules_.lag_bound;
  if (plan.warm_up) {
    plan.rate = rules_.warm_up_rate + (1 - rules_.warm_up_rate) * static_cast<double>(plan.step) /
                                          static_cast<double>(rules_.warm_up_steps);
  }
  plan.micro_batches = last_.micro_batches;
  if (rules_.adaptive_updates && plan.step % period_ == 0) {
    plan.micro_batches = AdaptedMicroBatches(plan.step, last_.micro_batches);
    norms_.erase(norms_.begin(), norms_.lower_bound(plan.step / period_ - (plan.step > 0)));
  }
  plan.sequences = last_.sequences;
  if (rules_.dynamic_batch && !plan.warm_up && fill_.count > 0) {
    plan.sequences = Sequences(rules_.sequences, fill_.value());
    fill_ = {};
  }
  return plan;
}

uint64_t Pace::AdaptedMicroBatches(uint64_t step, uint64_t micro_batches) const {
  const uint64_t now = step / period_;
  if (now < 2) return micro_batches;
  const auto before = norms_.find(now - 2), after = norms_.find(now - 1);
  if (before == norms_.end() || after == norms_.end() || before->second.value() <= 0) {
    return micro_batches;
  }
  const double change = std::abs(after->second.value() / before->second.value() - 1);
  const double factor = std::clamp(kSteadyChange / std::max(change, 1e-9), 0.5, 2.0);
  const auto wanted =
      static_cast<uint64_t>(std::llround(static_cast<double>(micro_batches) * factor));
  return std::clamp(wanted, rules_.adaptive_min, rules_.adaptive_max);
}

void Pace::Forget(uint64_t before) {
  std::lock_guard lock(mutex_);
  while (!plans_.empty() && plans_.front().step < before) plans_.pop_front();
}

void Pace::NoteNorm(uint64_t step, double norm) {
  if (!rules_.adaptive_updates || step < rules_.warm_up_steps) return;
  if (step % period_ == period_ - 1) return;  // see NoteNorm's contract
  std::lock_guard lock(mutex_);
  Mean& mean = norms_[step / period_];
  mean.sum += norm;
  ++mean.count;
}

void Pace::NoteFill(double fill) {
  if (!rules_.dynamic_batch) return;
  std::lock_guard lock(mutex_);
  fill_.sum += fill;
  ++fill_.count;
}

}  // namespace poolscope::trainer
