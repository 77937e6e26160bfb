#include "reference-trainer/lossy_link.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "reference-trainer/crc32c.h"
#include "reference-trainer/shaped_link.h"
#include "reference-trainer/timing.h"

namespace poolscope::trainer {

LossyLink::LossyLink(const std::string& name, Shape shape, size_t senders,
                     const std::vector<Signal*>& receivers, const CrossingRules& rules,
                     std::function<void(const std::string&)> fail)
    : BufferedLink(name, shape, senders, receivers),
      fail_(std::move(fail)),
      crossing_(rules, *this) {
  Start(0, [this] { Carry(); });
}

void LossyLink::AskAgain(size_t source, size_t destination, uint64_t version) {
  {
    std::lock_guard lock(mutex_);
    requests_.push_back({source, destination, version, NowNs()});
  }
  work_.notify_all();
}

void LossyLink::Carry() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const int64_t now = NowNs();
    for (MessagePtr& message : queue_) crossing_.Enter(std::move(message));
    queue_.clear();
    for (const Request& each : requests_) {
      crossing_.Ask(static_cast<uint32_t>(each.source), static_cast<uint32_t>(each.destination),
                    each.version, each.at_ns);
    }
    requests_.clear();
    lock.unlock();
    crossing_.Advance(now);
    lock.lock();
    traffic_.faults = crossing_.counts();
    if (stopping_ || !queue_.empty() || !requests_.empty()) continue;
    if (const int64_t next = crossing_.next_ns(); next == INT64_MAX) {
      work_.wait(lock);
    } else {
      work_.wait_until(lock, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(next)));
    }
  }
}

void LossyLink::Met(Crossing::Trouble trouble, const MessageFields& message, uint64_t bytes) {
  poolscope_fault_info info = {};
  info.kind = static_cast<uint64_t>(trouble);
  info.source = message.source;
  info.destination = message.destination;
  info.sequence = message.sequence;
  info.bytes = bytes;
  poolscope_fault(annotation(), &info);
}

void LossyLink::Failed(const MessageFields& message, uint32_t tries) {
  fail_(
      fmt::format("link {}: message {} from worker {} to worker {} did not get through in {} "
                  "tries (--retransmit-limit)",
                  name(), message.sequence, message.source, message.destination, tries));
}

std::unique_ptr<Link> MakeLink(const std::string& name, const Link::Shape& shape,
                               const ReliabilityOptions& reliability, const WireOptions& wire,
                               uint64_t seed, size_t senders, const std::vector<Signal*>& receivers,
                               const std::function<void(const std::string&)>& fail) {
  seed ^= Crc32c({reinterpret_cast<const uint8_t*>(name.data()), name.size()});
  if (const auto rules = RulesOf(reliability, wire, shape, seed)) {
    return std::make_unique<LossyLink>(name, shape, senders, receivers, *rules, fail);
  }
  return std::make_unique<ShapedLink>(name, shape, senders, receivers);
}

}  // namespace poolscope::trainer
