#include "reference-trainer/shaped_link.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "reference-trainer/timing.h"

namespace poolscope::trainer {
namespace {

std::chrono::steady_clock::time_point At(int64_t ns) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns));
}

struct OnItsWay {
  int64_t arrival_ns;
  MessagePtr message;
};

}  // namespace

ShapedLink::ShapedLink(const std::string& name, Shape shape, size_t senders,
                       const std::vector<Signal*>& receivers)
    : Link(name, shape, senders, receivers.size()),
      depth_counter_(poolscope_counter((name + ".depth").c_str())) {
  for (Signal* receiver : receivers) {
    buffers_.push_back(std::make_unique<Buffer>(shape.depth, *receiver));
  }
  for (size_t lane = 0; lane < shape.lanes; ++lane) {
    lanes_.emplace_back([this, lane] { Carry(lane); });
  }
}

ShapedLink::~ShapedLink() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& lane : lanes_) lane.join();
}

void ShapedLink::CountDepth(int change) {
  std::lock_guard lock(depth_mutex_);
  SampleDepth(change);
}

void ShapedLink::SampleDepth(int change) {
  depth_ += change;
  poolscope_sample(depth_counter_, static_cast<double>(depth_));
}

Reserved ShapedLink::TryReserve(size_t destination, Signal& sender) {
  return buffers_[destination]->TryReserve(sender);
}

void ShapedLink::HandOver(MessagePtr message) {
  CountDepth(+1);
  const poolscope_transfer queued = message->Annotation(POOLSCOPE_QUEUED);
  message->range = poolscope_queue_begin(annotation(), &queued);
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

Link::Traffic ShapedLink::traffic() {
  std::lock_guard lock(mutex_);
  return traffic_;
}

MessagePtr ShapedLink::TryTake(size_t destination) {
  // Locked around both: the sender that gets the slot must not be counted first.
  std::lock_guard lock(depth_mutex_);
  MessagePtr message = buffers_[destination]->TryTake();
  if (message) SampleDepth(-1);
  return message;
}

void ShapedLink::Close(size_t destination) {
  if (const size_t dropped = buffers_[destination]->Close(); dropped > 0) {
    CountDepth(-static_cast<int>(dropped));
  }
}

void ShapedLink::Carry(size_t lane) {
  UseFineTimers();
  const std::string thread_name = "link/" + name() + "/" + std::to_string(lane);
  nvtxNameOsThreadA(static_cast<uint32_t>(syscall(SYS_gettid)), thread_name.c_str());

  int64_t free_ns = 0;              // when the lane can take the next message
  std::deque<OnItsWay> on_its_way;  // by arrival, which is the order of taking
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const int64_t now = NowNs();
    if (!on_its_way.empty() && on_its_way.front().arrival_ns <= now) {
      MessagePtr message = std::move(on_its_way.front().message);
      on_its_way.pop_front();
      lock.unlock();
      poolscope_queue_end(message->range);
      Buffer& buffer = *buffers_[message->destination];
      if (!buffer.Deliver(std::move(message))) CountDepth(-1);
      lock.lock();
      continue;
    }
    const bool free = free_ns <= now;
    if (free && !queue_.empty()) {
      MessagePtr message = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      poolscope_queue_end(message->range);
      const poolscope_transfer wire = message->Annotation(POOLSCOPE_WIRE);
      message->range = poolscope_queue_begin(annotation(), &wire);
      free_ns = std::max(free_ns, message->handed_over_ns);
      if (shape().bytes_per_second > 0) {
        free_ns += static_cast<int64_t>(static_cast<double>(message->wire_bytes) * 1e9 /
                                        shape().bytes_per_second);
      }
      on_its_way.push_back({free_ns + shape().latency_ns, std::move(message)});
      lock.lock();
      continue;
    }
    int64_t next = INT64_MAX;
    if (!on_its_way.empty()) next = on_its_way.front().arrival_ns;
    if (!free && !queue_.empty()) next = std::min(next, free_ns);
    if (next == INT64_MAX) {
      work_.wait(lock);
    } else {
      work_.wait_until(lock, At(next));
    }
  }
}

}  // namespace poolscope::trainer
