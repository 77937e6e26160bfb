#include "reference-trainer/update_worker.h"

#include <algorithm>
#include <utility>

#include "reference-trainer/passes.h"

namespace poolscope::trainer {

UpdateWorker::UpdateWorker(Job& job, size_t index)
    : Worker(job, index, job.options().compute_workers + index, *job.update_signals[index]),
      shard_(job.MakeShard(job.ShardRanges(index), job.options().state.offload)) {}

void UpdateWorker::Probe() {
  if (index_ != 0) return;
  ReceiveProbes(*job_.gradients);
  SendProbes(*job_.weights);
}

void UpdateWorker::Run() {
  SampleState(job_, index_);
  if (job_.options().mode == Mode::kSync) {
    RunSync();
  } else {
    RunAsync();
  }
  job_.gradients->Close(index_);
}

void UpdateWorker::RunSync() {
  const Options& options = job_.options();
  const uint64_t senders = std::min(options.compute_workers, options.micro_batches);
  for (uint64_t step = 0; job_.coordinator->BeginStep(step); ++step) {
    // Decoded as they come, reduced by worker, so that the sum does not depend on who was first.
    std::vector<MessagePtr> by_worker(senders);
    Gathered gathered;
    for (uint64_t next = 0; next < senders;) {
      if (by_worker[next]) {
        Reduce(*by_worker[next], step, gathered);
        by_worker[next++].reset();
        continue;
      }
      MessagePtr message = Receive(*job_.gradients);
      Open(*job_.gradients, *message, SizeOf(job_.ShardRanges(index_)));
      const uint64_t source = message->source;
      by_worker[source] = std::move(message);
    }
    Update(step, gathered);
  }
}

void UpdateWorker::RunAsync() {
  for (uint64_t step = 0; step < job_.coordinator->steps(); ++step) {
    Gathered gathered;
    while (gathered.messages < job_.options().micro_batches) {
      const auto ready = std::find_if(admitted_.begin(), admitted_.end(),
                                      [&](const Admitted& each) { return each.step == step; });
      if (ready != admitted_.end()) {
        Reduce(*ready->message, step, gathered);
        admitted_.erase(ready);
        continue;
      }
      undecided_.push_back(Receive(*job_.gradients));
      Sort();
    }
    Update(step, gathered);
  }
}

void UpdateWorker::Sort() {
  // A decision may bring those of deferred messages with it: again until none does.
  while (SortOnce()) {
  }
}

bool UpdateWorker::SortOnce() {
  std::deque<MessagePtr> deferred;
  bool decided = false;
  for (MessagePtr& message : undecided_) {
    const Admission::Decision decision = job_.coordinator->Ask(message->attempt);
    switch (decision.verdict) {
      case Admission::Verdict::kDeferred:
        deferred.push_back(std::move(message));
        continue;
      case Admission::Verdict::kAccepted:
        Open(*job_.gradients, *message, SizeOf(job_.ShardRanges(index_)));
        admitted_.push_back({decision.step, std::move(message)});
        break;
      case Admission::Verdict::kDiscarded: {
        message->applied_version = decision.step;
        const poolscope_transfer discard = message->Annotation(POOLSCOPE_APPLY);
        poolscope_discard(job_.gradients->annotation(), &discard);
        break;
      }
    }
    decided = true;
  }
  undecided_ = std::move(deferred);
  return decided && !undecided_.empty();
}

void UpdateWorker::Reduce(Message& message, uint64_t step, Gathered& gathered) {
  message.applied_version = step;
  Apply(*job_.gradients, message, [&] {
    if (shard_) shard_->Add(message.values);
  });
  const uint64_t lag = step > message.version ? step - message.version : 0;
  gathered.loss_sum += message.loss_sum;
  gathered.tokens += message.tokens;
  gathered.micro_batches += message.micro_batches;
  gathered.messages += 1;
  gathered.lag_sum += lag;
  gathered.lag_max = std::max(gathered.lag_max, lag);
}

void UpdateWorker::Update(uint64_t step, const Gathered& gathered) {
  const Options& options = job_.options();
  Optimize(job_, *device_, shard_.get(), index_, step);
  job_.coordinator->Updated(index_);
  if (index_ == 0) {
    StepRecord record;
    record.step = step;
    record.loss = gathered.loss_sum / static_cast<double>(gathered.micro_batches);
    record.tokens = gathered.tokens;
    record.lag_mean =
        static_cast<double>(gathered.lag_sum) / static_cast<double>(gathered.messages);
    record.lag_max = gathered.lag_max;
    record.discarded = job_.coordinator->discarded();
    TellStep(job_, record, gathered.micro_batches);
  }
  for (uint64_t worker = 0; worker < options.compute_workers; ++worker) {
    auto message = std::make_unique<Message>();
    message->destination = worker;
    message->raw_bytes = job_.WeightBytes(index_);
    message->step = step;
    message->version = step + 1;
    Send(*job_.weights, options.weights.codec, std::move(message),
         shard_ ? shard_->values() : std::span<const float>{}, {});
  }
}

}  // namespace poolscope::trainer
