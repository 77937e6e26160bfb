#include "reference-trainer/compute_worker.h"

#include <algorithm>
#include <utility>

#include "reference-trainer/passes.h"
#include "reference-trainer/worker_state.h"

namespace poolscope::trainer {

ComputeWorker::ComputeWorker(Job& job, size_t index)
    : Worker(job, index, PoolRole::kCompute, *job.compute_signals[index]),
      replica_(job.options().rollout.on ? nullptr : job.MakeReplica(index)),
      all_reduce_(job.all_reduce ? std::make_unique<AllReduce>(job, *this, index, *device_, signal_)
                                 : nullptr),
      fetch_(job.fetch
                 ? std::make_unique<ParameterFetch>(job, *this, index, signal_, replica_.get())
                 : nullptr),
      sender_(job.buckets ? std::make_unique<GradientSender>(job, index, sending_, signal_)
                          : nullptr),
      held_(job.options().update_workers, 0),
      missing_(job, index),
      given_(job.start().step) {}

void ComputeWorker::Probe() {
  if (index_ != 0) return;
  SendProbes(*job_.gradients);
  ReceiveProbes(*job_.weights);
}

void ComputeWorker::Run() {
  const Options& options = job_.options();
  const auto residual = ResidualOf(job_.start(), index_, options.compute_workers);
  Worker& sender = sender_ ? *sender_ : static_cast<Worker&>(*this);
  sender.RestoreResidual(options.gradients.codec, residual);
  while (const auto attempt = NextAttempt(true)) Compute(*attempt);
  if (HeldVersion() > job_.start().step) Give(true);
  job_.weights->Close(index_);
  job_.coordinator->Leave(index_);
}

uint64_t ComputeWorker::HeldVersion() const {
  if (fetch_) return job_.coordinator->version();
  return *std::min_element(held_.begin(), held_.end());
}

void ComputeWorker::Give(bool last) {
  if (!last && HeldVersion() <= given_) return;
  given_ = HeldVersion();
  GiveReplica(job_, *device_, replica_.get(), index_, given_, last,
              [this](std::span<float> residual) {
                sender_ ? sender_->CopyMemories(residual) : CopyMemories(residual);
              });
}

void ComputeWorker::Compute(const Admission::Attempt& attempt) {
  memory_.AtStep(attempt.step);
  MessageFields sum;
  sum.step = attempt.step;
  sum.micro_batch = attempt.micro_batches == 1 ? attempt.micro_batch : POOLSCOPE_NO_VALUE;
  sum.version = attempt.version;
  sum.attempt = attempt.number;
  sum.first = attempt.micro_batch;
  sum.stride = all_reduce_ ? 1 : attempt.stride;
  sum.micro_batches = attempt.micro_batches;
  const ModelOptions& model = job_.options().model;
  sum.tokens = attempt.micro_batches * attempt.sequences * model.context;
  const Drained drained(*device_);
  if (replica_) replica_->ClearGradients();
  const auto parts = static_cast<double>(attempt.micro_batches + 1);  // the last one is sending
  OnBucket on_bucket;
  if (sender_) on_bucket = [&](const GradientBuckets::Bucket& bucket) { GiveBucket(sum, bucket); };
  for (uint64_t i = 0; i < attempt.micro_batches; ++i) {
    MayDepart(attempt.version, static_cast<double>(i) / parts);
    const uint64_t offset = i * attempt.stride;
    ForwardBackward(job_, *device_, signal_, replica_.get(),
                    {attempt.step, attempt.micro_batch + offset, attempt.version,
                     attempt.data + offset, attempt.sequences},
                    sum.loss_sum, fetch_.get(),
                    i + 1 == attempt.micro_batches ? on_bucket : OnBucket());
  }
  device_->Synchronize();
  if (fetch_) sum.version = fetch_->oldest_version();
  if (all_reduce_) {
    sum.first = 0;
    all_reduce_->Run(attempt.shares, sum,
                     replica_ ? replica_->Gradients(job_.AllRanges()) : std::span<const float>{});
    sum.micro_batch = sum.micro_batches == 1 ? 0 : POOLSCOPE_NO_VALUE;
  }
  if (sender_) {
    AwaitSender();
  } else {
    SendGradients(sum, attempt);
  }
  if (job_.options().schedule.DepartsInMidStep()) job_.coordinator->HandedOver(attempt.number);
}

void ComputeWorker::GiveBucket(const MessageFields& header, const GradientBuckets::Bucket& bucket) {
  for (const GradientBuckets::Piece& piece : bucket.pieces) {
    auto message = std::make_unique<Message>();
    static_cast<MessageFields&>(*message) = header;
    message->destination = piece.shard;
    message->part = piece.number;
    message->raw_bytes = piece.bytes;
    std::vector<float> values;
    if (replica_) {
      const auto sum = replica_->Gradients(piece.ranges);
      values.assign(sum.begin(), sum.end());
    }
    sender_->Give(std::move(message), std::move(values));
  }
}

void ComputeWorker::AwaitSender() {
  OpenWait none;
  for (;;) {
    const uint64_t ticket = signal_.Ticket();
    job_.CheckRunning();
    if (sender_->Idle()) return;
    InstallArrived(none);  // an update worker that cannot deliver weights would not take gradients
    device_->Waited();
    signal_.WaitPast(ticket);
  }
}

void ComputeWorker::MayDepart(uint64_t step, double progress) {
  const auto due = [&](const std::vector<Departure>& departures) {
    return std::any_of(departures.begin(), departures.end(), [&](const Departure& each) {
      const bool reached = step > each.step || (step == each.step && progress >= each.progress);
      return each.worker == index_ && reached;
    });
  };
  const ScheduleOptions& schedule = job_.options().schedule;
  if (due(schedule.leaves)) {
    job_.coordinator->Leave(index_);
    throw Abandoned{};
  }
  if (due(schedule.kills)) throw Abandoned{};
}

std::optional<Admission::Attempt> ComputeWorker::NextAttempt(bool patient) {
  OpenWait wait;
  for (;;) {
    const uint64_t ticket = signal_.Ticket();
    job_.CheckRunning();
    InstallArrived(wait);
    Give(false);
    const uint64_t held = HeldVersion();
    int64_t again_ns = INT64_MAX;
    poolscope_category why = POOLSCOPE_WAIT_LINK;
    const Link* link = job_.weights.get();
    MayDepart(held, 0);
    const Admission::Attempt attempt = job_.coordinator->TryStart(index_, held);
    if (!patient && attempt.start != Admission::Start::kStarted) return std::nullopt;
    switch (attempt.start) {
      case Admission::Start::kStarted:
        return attempt;
      case Admission::Start::kGone:
        return std::nullopt;
      case Admission::Start::kNoCredit:
        why = POOLSCOPE_WAIT_CREDIT;
        link = job_.gradients.get();
        break;
      case Admission::Start::kNothingLeft:
        if (held >= job_.coordinator->steps()) return std::nullopt;
        again_ns = missing_.AskWhereDue(held_, held + 1);
        break;
      case Admission::Start::kNeedsWeights:
        if (fetch_ && held + 1 < job_.coordinator->steps()) {
          again_ns = fetch_->AskForVersion(held + 1, wait);
        } else {
          again_ns = missing_.AskWhereDue(held_, held + 1);
        }
        break;
    }
    WaitOrWork(wait, why, *link, ticket, again_ns);
  }
}

void ComputeWorker::SendGradients(const MessageFields& header, const Admission::Attempt& attempt) {
  const auto shards = static_cast<double>(job_.options().update_workers);
  const auto parts = static_cast<double>(attempt.micro_batches + 1);
  for (uint64_t shard = 0; shard < job_.options().update_workers; ++shard) {
    MayDepart(attempt.version, (parts - 1 + static_cast<double>(shard) / shards) / parts);
    if (all_reduce_ && shard % attempt.shares != index_) continue;
    auto message = std::make_unique<Message>();
    static_cast<MessageFields&>(*message) = header;
    message->destination = shard;
    message->raw_bytes = job_.GradientBytes(shard);
    const auto values = [&]() -> std::span<const float> {
      if (all_reduce_) return all_reduce_->Of(job_.ShardRanges(shard));
      return replica_ ? replica_->Gradients(job_.ShardRanges(shard)) : std::span<const float>{};
    };
    // Weights are taken in while the gradients' buffer is full: an update worker that cannot
    // deliver them would not empty it.
    Send(*job_.gradients, job_.options().gradients.codec, std::move(message), values,
         [this](OpenWait& wait) { InstallArrived(wait); });
  }
}

void ComputeWorker::InstallArrived(OpenWait& wait) {
  if (fetch_) return fetch_->TakeArrived(wait);
  std::map<uint64_t, MessagePtr> newest;  // by source
  while (MessagePtr message = TryReceive(*job_.weights, wait)) {
    const uint64_t source = message->source;
    MessagePtr& before = newest[source];
    if (before && before->block.codec.needs_every_message()) {
      Open(*job_.weights, *before, SizeOf(job_.ShardRanges(source)));
    }
    if (!before || before->version < message->version) before = std::move(message);
  }
  for (auto& [source, message] : newest) Install(std::move(message));
}

void ComputeWorker::Install(MessagePtr message) {
  if (message->version <= held_[message->source]) return;
  const Ranges& ranges = job_.ShardRanges(message->source);
  Open(*job_.weights, *message, SizeOf(ranges));
  Apply(*job_.weights, *message, [&] {
    if (replica_) replica_->Install(ranges, message->values);
  });
  held_[message->source] = message->version;
}

}  // namespace poolscope::trainer
