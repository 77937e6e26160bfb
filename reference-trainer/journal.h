#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace poolscope::trainer {

// What is told about one step.
struct StepRecord {
  uint64_t step = 0;
  double loss = 0;  // mean over its micro-batches in nats; NaN where nothing is computed
  uint64_t tokens = 0;
  uint64_t tokens_total = 0;  // with all steps before
  uint64_t micro_batches = 0;
  uint64_t compute_workers = 0;  // at the beginning of the step
  int64_t end_ns = 0;            // CLOCK_MONOTONIC when the update was made
  double lag_mean = 0;
  uint64_t lag_max = 0;
  uint64_t versions_held = 0;  // asynchronous: most of gradients that waited at update worker 0
  uint64_t discarded = 0;      // gradients, since the start of the run
};

// Steps on their way from the update worker that made them to the thread that prints them, so that
// a slow terminal does not hold up a worker.
class Journal {
 public:
  // A step that was told before is not told again: a run that goes back repeats some.
  void Add(const StepRecord& record) {
    {
      std::lock_guard lock(mutex_);
      if (record.step < told_) return;
      told_ = record.step + 1;
      records_.push_back(record);
    }
    changed_.notify_one();
  }

  // No more will come.
  void Close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_one();
  }

  // The next record; none where none came within `patience`, or where it is closed and drained.
  std::optional<StepRecord> Next(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return closed_ || !records_.empty(); });
    if (records_.empty()) return std::nullopt;
    const StepRecord record = records_.front();
    records_.pop_front();
    return record;
  }

  // All steps before this one were told.
  uint64_t told() {
    std::lock_guard lock(mutex_);
    return told_;
  }

  bool Drained() {
    std::lock_guard lock(mutex_);
    return closed_ && records_.empty();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<StepRecord> records_;  // guarded by mutex_
  bool closed_ = false;             // guarded by mutex_
  uint64_t told_ = 0;               // guarded by mutex_
};

}  // namespace poolscope::trainer
