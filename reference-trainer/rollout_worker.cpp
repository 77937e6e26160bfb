#include "reference-trainer/rollout_worker.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace poolscope::trainer {
namespace {

constexpr uint64_t kSliceTokens = 16;
constexpr double kLongest = 32;        // of the median length
constexpr uint64_t kBytesOfToken = 8;  // its number, and the logarithm of its probability

}  // namespace

void RolloutWorker::Run() {
  while (Fill()) {
    Generate();
    SendDone();
  }
  job_.weights->Close(index_);
  job_.coordinator->Leave(index_);
}

bool RolloutWorker::Fill() {
  job_.CheckRunning();
  OpenWait none;
  InstallArrived(none);
  ThrowStaleAway();
  while (active_.size() < job_.options().rollout.slots) {
    const auto attempt = NextAttempt(active_.empty());
    if (!attempt) break;
    active_.push_back({*attempt, LengthOf(*attempt), 0});
  }
  return !active_.empty() && HeldVersion() < job_.coordinator->steps();
}

uint64_t RolloutWorker::LengthOf(const Admission::Attempt& attempt) const {
  const RolloutOptions& rollout = job_.options().rollout;
  std::mt19937_64 random(job_.options().seed * 1'000'003 + attempt.data);
  const double factor = std::exp(rollout.tail * std::normal_distribution<double>()(random));
  return std::max<uint64_t>(
      1, static_cast<uint64_t>(std::llround(rollout.tokens * std::min(factor, kLongest))));
}

void RolloutWorker::ThrowStaleAway() {
  const Options& options = job_.options();
  if (options.stale != Stale::kDrop && options.stale != Stale::kRecompute) return;
  const uint64_t held = HeldVersion();  // the version about to be modified is no older
  std::erase_if(active_, [&](const Sequence& each) {
    if (held <= each.attempt.version + options.lag_bound) return false;
    // The answer that the trainer would have got for it.
    const Admission::Decision decision = job_.coordinator->Ask(each.attempt.number);
    poolscope_transfer discard = {};
    discard.source = index_;
    discard.destination = discard.sequence = POOLSCOPE_NO_VALUE;
    discard.step = each.attempt.step;
    discard.micro_batch = each.attempt.micro_batch;
    discard.version = each.attempt.version;
    discard.applied_version = decision.step;
    poolscope_discard(job_.gradients->annotation(), &discard);
    return true;
  });
}

void RolloutWorker::Generate() {
  if (active_.empty()) return;
  const RolloutOptions& rollout = job_.options().rollout;
  const auto active = static_cast<double>(active_.size());
  poolscope_sample(job_.annotations.active, active);
  poolscope_sample(job_.annotations.occupancy, active / static_cast<double>(rollout.slots));
  uint64_t tokens = kSliceTokens;
  for (const Sequence& each : active_) tokens = std::min(tokens, each.length - each.made);
  // Work on all of them at once: ranges within each other.
  for (size_t i = 0; i < active_.size(); ++i) {
    poolscope_begin(POOLSCOPE_WORK, job_.annotations.generate);
  }
  device_->AtStep(active_.front().attempt.step);
  device_->Run(static_cast<double>(tokens) * rollout.token_seconds, {});
  for (Sequence& each : active_) {
    const Admission::Attempt& attempt = each.attempt;
    const poolscope_work work = {attempt.step, attempt.micro_batch, attempt.version,
                                 POOLSCOPE_PER_MICRO_BATCH, POOLSCOPE_NO_VALUE};
    poolscope_end_work(&work);
    each.made += tokens;
  }
}

void RolloutWorker::SendDone() {
  for (const Sequence& each : active_) {
    if (each.made < each.length) continue;
    auto message = std::make_unique<Message>();
    message->raw_bytes = kBytesOfToken * each.length;
    message->step = each.attempt.step;
    message->micro_batch = each.attempt.micro_batch;
    message->version = each.attempt.version;
    message->attempt = each.attempt.number;
    message->first = each.attempt.data;
    message->micro_batches = 1;
    message->tokens = job_.tokens_of_micro_batch();
    Send(
        *job_.gradients, Codec::kNone, std::move(message), [] { return std::span<const float>{}; },
        [this](OpenWait& wait) { InstallArrived(wait); });
  }
  std::erase_if(active_, [](const Sequence& each) { return each.made >= each.length; });
}

}  // namespace poolscope::trainer
