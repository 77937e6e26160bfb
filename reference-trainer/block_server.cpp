#include "reference-trainer/block_server.h"

#include <algorithm>
#include <utility>

namespace poolscope::trainer {

BlockServer::BlockServer(Job& job, size_t index, Signal& signal)
    : Worker(job, index, PoolRole::kUpdate, signal), held_(job.options().update_workers) {}

void BlockServer::Publish(uint64_t version, std::span<const float> values) {
  {
    std::lock_guard lock(mutex_);
    held_[index_] = {true, version, {values.begin(), values.end()}};
  }
  signal_.Notify();
}

void BlockServer::Run() {
  OpenWait wait;
  for (;;) {
    const uint64_t ticket = signal_.Ticket();
    job_.CheckRunning();
    if (job_.fetch->over()) return;
    Serve(wait);
    device_->Waited();
    signal_.WaitPast(ticket);
  }
}

void BlockServer::Serve(OpenWait& wait) {
  TakeReplicas(wait);
  TakeRequests(wait);
  std::erase_if(requests_, [&](const Request& request) { return Answer(request, wait); });
}

void BlockServer::TakeRequests(OpenWait& wait) {
  while (const MessagePtr message = job_.fetch->requests->TryTake(index_)) {
    wait.End();
    Apply(*job_.fetch->requests, *message, [&] {
      const Request request{message->source, message->weight_block, message->version, message->step,
                            message->micro_batch};
      // A repeated one takes the place of the one before.
      const auto same = [&](const Request& other) {
        return other.worker == request.worker && other.block == request.block;
      };
      std::erase_if(requests_, same);
      requests_.push_back(request);
    });
  }
}

void BlockServer::TakeReplicas(OpenWait& wait) {
  if (!job_.fetch->replicas) return;
  while (const MessagePtr message = job_.fetch->replicas->TryTake(index_)) {
    wait.End();
    Open(*job_.fetch->replicas, *message, SizeOf(job_.ShardRanges(message->source)));
    Apply(*job_.fetch->replicas, *message, [&] {
      std::lock_guard lock(mutex_);
      held_[message->source] = {true, message->version, std::move(message->values)};
    });
  }
}

bool BlockServer::Answer(const Request& request, OpenWait& wait) {
  const WeightBlock& block = job_.fetch->blocks()[request.block];
  auto message = std::make_unique<Message>();
  {
    std::lock_guard lock(mutex_);
    const Held& held = held_[block.owner];
    if (!held.here || held.version < request.version) return false;
    const Reserved reserved = job_.weights->TryReserve(request.worker, signal_);
    if (reserved == Reserved::kFull) return false;
    if (reserved == Reserved::kClosed) return true;
    message->version = held.version;
    values_.clear();
    if (!held.values.empty()) {
      for (const Part& part : block.in_shard) {
        values_.insert(values_.end(), held.values.begin() + static_cast<std::ptrdiff_t>(part.begin),
                       held.values.begin() + static_cast<std::ptrdiff_t>(part.end));
      }
    }
  }
  wait.End();
  message->destination = request.worker;
  message->weight_block = request.block;
  message->raw_bytes = block.raw_bytes;
  message->step = request.step;
  message->micro_batch = request.micro_batch;
  const double rate = job_.options().fetch.serve_bytes_per_second;
  Encode(
      *job_.weights, job_.options().weights.codec, *message,
      [this] { return std::span<const float>(values_); },
      rate > 0 ? static_cast<double>(block.raw_bytes) / rate : 0);
  job_.fetch->Served(index_, block.raw_bytes);
  job_.weights->HandOver(std::move(message));
  return true;
}

}  // namespace poolscope::trainer
