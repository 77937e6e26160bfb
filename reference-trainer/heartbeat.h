#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>

#include "reference-trainer/coordinator.h"

namespace poolscope::trainer {

// The thread of a process that says of its workers that they live, four times within each lease. A
// worker whose thread ends, however that comes, is said nothing more of. Workers are numbered as in
// Coordinator::Beat.
class Heartbeat {
 public:
  Heartbeat(Coordinator& coordinator, double lease_seconds)
      : coordinator_(coordinator), interval_(lease_seconds / 4), thread_([this] { Run(); }) {}

  ~Heartbeat() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // Lives on the stack of the worker's thread.
  class Pulse {
   public:
    // `heart` may be null: nobody is told.
    Pulse(Heartbeat* heart, uint64_t worker) : heart_(heart), worker_(worker) {
      if (!heart_) return;
      std::lock_guard lock(heart_->mutex_);
      heart_->alive_.insert(worker_);
      heart_->changed_.notify_all();
    }
    ~Pulse() {
      if (!heart_) return;
      std::lock_guard lock(heart_->mutex_);
      heart_->alive_.erase(worker_);
    }
    Pulse(const Pulse&) = delete;
    Pulse& operator=(const Pulse&) = delete;

   private:
    Heartbeat* const heart_;
    const uint64_t worker_;
  };

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      for (const uint64_t worker : alive_) coordinator_.Beat(worker);
      changed_.wait_for(lock, interval_);
    }
  }

  Coordinator& coordinator_;
  const std::chrono::duration<double> interval_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<uint64_t> alive_;  // guarded by mutex_
  bool stopping_ = false;     // guarded by mutex_
  std::thread thread_;
};

}  // namespace poolscope::trainer
