#include "reference-trainer/buffer.h"

#include <algorithm>
#include <utility>

namespace poolscope::trainer {

Reserved Buffer::TryReserve(Signal& sender) {
  std::lock_guard lock(mutex_);
  if (closed_) return Reserved::kClosed;
  if (in_use_ == depth_) {
    if (std::find(blocked_.begin(), blocked_.end(), &sender) == blocked_.end()) {
      blocked_.push_back(&sender);
    }
    return Reserved::kFull;
  }
  ++in_use_;
  return Reserved::kYes;
}

bool Buffer::Deliver(MessagePtr message) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) return false;
    arrived_.push_back(std::move(message));
  }
  receiver_.Notify();
  return true;
}

MessagePtr Buffer::TryTake() {
  MessagePtr message;
  std::vector<Signal*> senders;
  {
    std::lock_guard lock(mutex_);
    if (arrived_.empty()) return nullptr;
    message = std::move(arrived_.front());
    arrived_.pop_front();
    --in_use_;
    senders.swap(blocked_);
  }
  WakeSenders(senders);
  return message;
}

bool Buffer::Arrived() const {
  std::lock_guard lock(mutex_);
  return !arrived_.empty();
}

size_t Buffer::InUse() const {
  std::lock_guard lock(mutex_);
  return in_use_;
}

void Buffer::Close() {
  std::vector<Signal*> senders;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    arrived_.clear();
    senders.swap(blocked_);
  }
  WakeSenders(senders);
}

void Buffer::WakeSenders(std::vector<Signal*>& senders) {
  for (Signal* sender : senders) sender->Notify();
}

}  // namespace poolscope::trainer
