#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "advisor/link_state.h"

// What will happen in the simulation, by time; ties in the order of scheduling.
namespace poolscope {

enum class Happening : uint8_t { kWorker, kLaneFree, kArrival, kCores };

struct Timed {
  double at;
  uint64_t order;  // ties in the order of scheduling
  Happening what;
  int index;  // worker, link (0 gradients, 1 weights)
  uint64_t generation;
  SimulatedMessage message;
  bool operator>(const Timed& other) const {
    return at != other.at ? at > other.at : order > other.order;
  }
};

class EventQueue {
 public:
  void Schedule(double at, Happening what, int index, const SimulatedMessage& message = {},
                uint64_t generation = 0) {
    queue_.push({at, ++order_, what, index, generation, message});
  }
  bool empty() const { return queue_.empty(); }
  Timed Next() {
    const Timed next = queue_.top();
    queue_.pop();
    return next;
  }

 private:
  uint64_t order_ = 0;
  std::priority_queue<Timed, std::vector<Timed>, std::greater<>> queue_;
};

}  // namespace poolscope
