#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace poolscope::trainer {

// What one worker sleeps on. A worker waits for several things at once (a credit, a slot, a
// message); whoever changes one of them notifies its signal. Take a ticket, look at the
// conditions, then WaitPast(ticket): a change between the two is not missed.
class Signal {
 public:
  virtual ~Signal() = default;

  uint64_t Ticket() {
    std::lock_guard lock(mutex_);
    return count_;
  }

  void WaitPast(uint64_t ticket) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ != ticket; });
  }

  // Waits at most until `until_ns` (CLOCK_MONOTONIC; INT64_MAX: for ever). False: nothing changed.
  bool WaitPast(uint64_t ticket, int64_t until_ns) {
    std::unique_lock lock(mutex_);
    const auto changed = [&] { return count_ != ticket; };
    if (until_ns == INT64_MAX) {
      changed_.wait(lock, changed);
      return true;
    }
    return changed_.wait_until(
        lock, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(until_ns)), changed);
  }

  virtual void Notify() {
    {
      std::lock_guard lock(mutex_);
      ++count_;
    }
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t count_ = 0;  // guarded by mutex_
};

}  // namespace poolscope::trainer
