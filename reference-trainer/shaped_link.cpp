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
    : BufferedLink(name, shape, senders, receivers) {
  for (size_t lane = 0; lane < shape.lanes; ++lane) Start(lane, [this] { Carry(); });
}

void ShapedLink::Carry() {
  int64_t free_ns = 0;              // when the lane can take the next message
  std::deque<OnItsWay> on_its_way;  // by arrival, which is the order of taking
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const int64_t now = NowNs();
    if (!on_its_way.empty() && on_its_way.front().arrival_ns <= now) {
      MessagePtr message = std::move(on_its_way.front().message);
      on_its_way.pop_front();
      lock.unlock();
      Deliver(std::move(message));
      lock.lock();
      continue;
    }
    const bool free = free_ns <= now;
    if (free && !queue_.empty()) {
      MessagePtr message = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      BeginWire(*message);
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
