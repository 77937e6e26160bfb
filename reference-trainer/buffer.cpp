#include "reference-trainer/buffer.h"

#include <algorithm>
#include <utility>

namespace poolscope::trainer {

Reserved Buffer::TryReserve(Signal& sender) {
  std::lock_guard lock(mutex_);
  if (closed_) return Reserved::kClosed;
  const bool in_line = std::find(blocked_.begin(), blocked_.end(), &sender) != blocked_.end();
  const bool its_turn = blocked_.empty() || blocked_.front() == &sender;
  if (in_use_ == depth_ || !its_turn) {
    if (!in_line) blocked_.push_back(&sender);
    return Reserved::kFull;
  }
  if (in_line) blocked_.pop_front();
  ++in_use_;
  WakeNext();
  return Reserved::kYes;
}

bool Buffer::TryReserveSpare() {
  std::lock_guard lock(mutex_);
  if (closed_ || in_use_ == depth_ || !blocked_.empty()) return false;
  ++in_use_;
  return true;
}

void Buffer::Release() {
  std::lock_guard lock(mutex_);
  --in_use_;
  WakeNext();
}

void Buffer::WakeNext() {
  if (in_use_ < depth_ && !blocked_.empty()) blocked_.front()->Notify();
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
  std::lock_guard lock(mutex_);
  if (arrived_.empty()) return nullptr;
  MessagePtr message = std::move(arrived_.front());
  arrived_.pop_front();
  --in_use_;
  WakeNext();
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

void Buffer::Clear() {
  std::lock_guard lock(mutex_);
  in_use_ = 0;
  closed_ = false;
  arrived_.clear();
  blocked_.clear();
}

size_t Buffer::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  const size_t dropped = arrived_.size();
  arrived_.clear();
  for (Signal* sender : blocked_) sender->Notify();
  blocked_.clear();
  return dropped;
}

}  // namespace poolscope::trainer
