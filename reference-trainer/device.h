#pragma once

#include <poolscope/annotate.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <utility>

namespace poolscope::trainer {

// A piece of a worker's own work.
struct Operation {
  nvtxStringHandle_t name = nullptr;
  double seconds = 0;  // on an emulated device
  poolscope_work work = {};
  std::function<void()> math;  // may be empty
};

// What a worker computes on. One per worker, used by its thread alone.
class Device {
 public:
  virtual ~Device() = default;

  // Does `math` (may be empty) as an operation that costs `seconds` on an emulated device. Returns
  // the thread's CPU time in nanoseconds, POOLSCOPE_NO_VALUE where that says nothing.
  virtual uint64_t Run(double seconds, const std::function<void()>& math) = 0;

  // What is run from now on is for `step`.
  virtual void AtStep(uint64_t /*step*/) {}

  // Runs an operation as annotated work, or lets the device run it after those launched before. Its
  // math may not have been done before Synchronize, which throws what math has thrown.
  virtual void Launch(Operation operation);
  virtual void Synchronize() {}
  // Waits until the device can begin an operation that costs `seconds`: that of the next Run.
  virtual void AwaitTurn(double /*seconds*/) {}

  // The worker has waited: the next operation does not directly follow the one before.
  virtual void Waited() {}
};

// Waits at the end of its scope for all that was launched, however the scope is left.
class Drained {
 public:
  explicit Drained(Device& device) : device_(device) {}
  ~Drained();
  Drained(const Drained&) = delete;
  Drained& operator=(const Drained&) = delete;

 private:
  Device& device_;
};

// Real arithmetic elsewhere: `math` returns when it is done there, the thread's own CPU time says
// nothing of it.
class RemoteDevice : public Device {
 public:
  uint64_t Run(double seconds, const std::function<void()>& math) override;
};

// Real arithmetic: an operation takes what it takes.
class CpuDevice : public Device {
 public:
  uint64_t Run(double seconds, const std::function<void()>& math) override;
};

// A device that several workers share: it does one operation at a time, in the order of asking.
// Any thread may call.
class Turns {
 public:
  // The device is taken for `duration_ns` from the instant that is returned: `earliest_ns`, or when
  // it is free.
  int64_t Take(int64_t earliest_ns, int64_t duration_ns) {
    std::lock_guard lock(mutex_);
    const int64_t start_ns = std::max(earliest_ns, free_ns_);
    free_ns_ = start_ns + duration_ns;
    return start_ns;
  }

 private:
  std::mutex mutex_;
  int64_t free_ns_ = 0;  // guarded by mutex_
};

// An operation lasts its stated time by sleeping to an absolute deadline, whatever the machine is
// doing, provided that `math` fits in. One that directly follows another is timed from the other's
// deadline, so that late wake-ups do not add up.
class EmulatedDevice : public Device {
 public:
  // Each duration is multiplied by max(0.1, 1 + jitter × N(0, 1)).
  // Workers of one device have the same `turns`.
  EmulatedDevice(double jitter, uint64_t seed, std::shared_ptr<Turns> turns = nullptr)
      : jitter_(jitter), turns_(std::move(turns)), random_(seed) {}

  // Marked as a wait for the device.
  void AwaitTurn(double seconds) override;
  uint64_t Run(double seconds, const std::function<void()>& math) override;
  void Waited() override { deadline_ns_ = 0; }

 private:
  const double jitter_;
  const std::shared_ptr<Turns> turns_;  // null: the device is the worker's own
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  int64_t deadline_ns_ = 0;  // of the operation before; 0: nothing to follow
  bool has_turn_ = false;    // deadline_ns_ is that of the next operation
};

}  // namespace poolscope::trainer
