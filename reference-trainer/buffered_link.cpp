#include "reference-trainer/buffered_link.h"

#include <utility>

#include "reference-trainer/timing.h"

namespace poolscope::trainer {

BufferedLink::BufferedLink(const std::string& name, Shape shape, size_t senders,
                           const std::vector<Signal*>& receivers)
    : Link(name, shape, senders, receivers.size()),
      depth_counter_(poolscope_counter((name + ".depth").c_str())) {
  for (Signal* receiver : receivers) {
    buffers_.push_back(std::make_unique<Buffer>(shape.depth, *receiver));
  }
}

void BufferedLink::Start(size_t lane, const std::function<void()>& carry) {
  threads_.emplace_back([name = "link/" + name() + "/" + std::to_string(lane), carry] {
    UseFineTimers();
    nvtxNameOsThreadA(static_cast<uint32_t>(syscall(SYS_gettid)), name.c_str());
    carry();
  });
}

void BufferedLink::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BufferedLink::SampleDepth(int change) {
  depth_ += change;
  poolscope_sample(depth_counter_, static_cast<double>(depth_));
}

Reserved BufferedLink::TryReserve(size_t destination, Signal& sender) {
  return buffers_[destination]->TryReserve(sender);
}

void BufferedLink::HandOver(MessagePtr message) {
  {
    std::lock_guard lock(depth_mutex_);
    SampleDepth(+1);
    message->epoch = epoch_;
  }
  Queue(std::move(message));
}

void BufferedLink::Queue(MessagePtr message) {
  BeginQueued(*message);
  message->handed_over_ns = NowNs();
  {
    std::lock_guard lock(mutex_);
    if (message->step != POOLSCOPE_NO_VALUE) {
      traffic_.raw_bytes += message->raw_bytes;
      traffic_.wire_bytes += message->wire_bytes;
    }
    queue_.push_back(std::move(message));
  }
  work_.notify_all();
}

Link::Traffic BufferedLink::traffic() {
  std::lock_guard lock(mutex_);
  return traffic_;
}

MessagePtr BufferedLink::TryTake(size_t destination) {
  // Locked around both: the sender that gets the slot must not be counted first.
  std::lock_guard lock(depth_mutex_);
  MessagePtr message = buffers_[destination]->TryTake();
  if (message) SampleDepth(-1);
  return message;
}

void BufferedLink::Close(size_t destination) {
  std::lock_guard lock(depth_mutex_);
  if (const size_t dropped = buffers_[destination]->Close(); dropped > 0) {
    SampleDepth(-static_cast<int>(dropped));
  }
}

void BufferedLink::Clear() {
  std::deque<MessagePtr> queued;
  {
    std::lock_guard lock(mutex_);
    queued.swap(queue_);
  }
  for (const MessagePtr& message : queued) poolscope_queue_end(message->range);
  std::lock_guard lock(depth_mutex_);
  ++epoch_;
  for (const auto& buffer : buffers_) buffer->Clear();
  SampleDepth(-static_cast<int>(depth_));
}

void BufferedLink::Deliver(MessagePtr message) {
  poolscope_queue_end(message->range);
  std::lock_guard lock(depth_mutex_);
  if (message->epoch != epoch_) return;
  Buffer& buffer = *buffers_[message->destination];
  if (!buffer.Deliver(std::move(message))) SampleDepth(-1);
}

void BufferedLink::Drop(MessagePtr message) {
  poolscope_queue_end(message->range);
  std::lock_guard lock(depth_mutex_);
  if (message->epoch != epoch_) return;
  SampleDepth(-1);
  buffers_[message->destination]->Release();
}

bool BufferedLink::HandOverAgain(MessagePtr message) {
  {
    std::lock_guard lock(depth_mutex_);
    if (message->epoch != epoch_) return false;
    if (!buffers_[message->destination]->TryReserveSpare()) return false;
    SampleDepth(+1);
  }
  Queue(std::move(message));
  return true;
}

}  // namespace poolscope::trainer
