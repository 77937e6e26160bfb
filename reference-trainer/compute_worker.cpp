#include "reference-trainer/compute_worker.h"

#include <algorithm>
#include <utility>

#include "reference-trainer/passes.h"

namespace poolscope::trainer {

ComputeWorker::ComputeWorker(Job& job, size_t index)
    : Worker(job, index, index, *job.compute_signals[index]),
      replica_(job.MakeReplica()),
      held_(job.options().update_workers, 0) {}

void ComputeWorker::Probe() {
  if (index_ != 0) return;
  SendProbes(*job_.gradients);
  ReceiveProbes(*job_.weights);
}

void ComputeWorker::Run() {
  if (job_.options().mode == Mode::kSync) {
    RunSync();
  } else {
    RunAsync();
  }
}

uint64_t ComputeWorker::HeldVersion() const {
  return *std::min_element(held_.begin(), held_.end());
}

void ComputeWorker::RunSync() {
  const Options& options = job_.options();
  for (uint64_t step = 0; job_.coordinator->BeginStep(step); ++step) {
    Message sum;
    sum.step = step;
    sum.version = step;
    if (replica_) replica_->ClearGradients();
    for (uint64_t m = index_; m < options.micro_batches; m += options.compute_workers) {
      sum.loss_sum += ForwardBackward(job_, *device_, signal_, replica_.get(),
                                      {step, m, step, step * options.micro_batches + m});
      sum.tokens += job_.tokens_of_micro_batch();
      sum.micro_batch = ++sum.micro_batches == 1 ? m : POOLSCOPE_NO_VALUE;
    }
    if (sum.micro_batches > 0) SendGradients(sum);
    for (uint64_t shard = 0; shard < options.update_workers; ++shard) {
      Install(Receive(*job_.weights));
    }
  }
}

void ComputeWorker::RunAsync() {
  const uint64_t micro_batches = job_.options().micro_batches;
  while (const auto attempt = NextAttempt()) {
    Message header;
    header.step = attempt->number / micro_batches;
    header.micro_batch = attempt->number % micro_batches;
    header.version = attempt->version;
    header.attempt = attempt->number;
    header.micro_batches = 1;
    header.tokens = job_.tokens_of_micro_batch();
    if (replica_) replica_->ClearGradients();
    header.loss_sum =
        ForwardBackward(job_, *device_, signal_, replica_.get(),
                        {header.step, header.micro_batch, header.version, attempt->data});
    SendGradients(header);
  }
}

std::optional<Admission::Attempt> ComputeWorker::NextAttempt() {
  OpenWait wait;
  for (;;) {
    const uint64_t ticket = signal_.Ticket();
    job_.CheckRunning();
    InstallArrived(wait);
    const Admission::Attempt attempt = job_.coordinator->TryStart(HeldVersion());
    switch (attempt.start) {
      case Admission::Start::kStarted:
        return attempt;
      case Admission::Start::kNoCredit:
        wait.Begin(POOLSCOPE_WAIT_CREDIT, job_.gradients->annotation());
        break;
      case Admission::Start::kNothingLeft:
        if (HeldVersion() >= job_.coordinator->steps()) return std::nullopt;
        [[fallthrough]];
      case Admission::Start::kNeedsWeights:
        wait.Begin(POOLSCOPE_WAIT_LINK, job_.weights->annotation());
        break;
    }
    device_->Waited();
    signal_.WaitPast(ticket);
  }
}

void ComputeWorker::SendGradients(const Message& header) {
  for (uint64_t shard = 0; shard < job_.options().update_workers; ++shard) {
    auto message = std::make_unique<Message>();
    message->destination = shard;
    message->raw_bytes = job_.GradientBytes(shard);
    message->step = header.step;
    message->micro_batch = header.micro_batch;
    message->version = header.version;
    message->attempt = header.attempt;
    message->loss_sum = header.loss_sum;
    message->micro_batches = header.micro_batches;
    message->tokens = header.tokens;
    std::span<const float> values;
    if (replica_) values = replica_->Gradients(job_.ShardRanges(shard));
    // Weights are taken in while the gradients' buffer is full: an update worker that cannot
    // deliver them would not empty it.
    Send(*job_.gradients, job_.options().gradients.codec, std::move(message), values,
         [this](OpenWait& wait) {
           if (job_.options().mode == Mode::kAsync) InstallArrived(wait);
         });
  }
}

void ComputeWorker::InstallArrived(OpenWait& wait) {
  std::map<uint64_t, MessagePtr> newest;  // by source
  while (MessagePtr message = job_.weights->TryTake(index_)) {
    wait.End(message->source, message->sequence);
    const uint64_t source = message->source;
    MessagePtr& before = newest[source];
    if (before && before->block.codec.needs_every_message()) {
      Open(*job_.weights, *before, SizeOf(job_.ShardRanges(source)));
    }
    before = std::move(message);
  }
  for (auto& [source, message] : newest) Install(std::move(message));
}

void ComputeWorker::Install(MessagePtr message) {
  const Ranges& ranges = job_.ShardRanges(message->source);
  Open(*job_.weights, *message, SizeOf(ranges));
  Apply(*job_.weights, *message, [&] {
    if (replica_) replica_->Install(ranges, message->values);
  });
  held_[message->source] = message->version;
}

}  // namespace poolscope::trainer
