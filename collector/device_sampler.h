#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collector/nvml.h"

namespace poolscope {

// Reads the devices of this host once a window, on a thread of its own (a reading takes a while).
// Without NVML it does nothing.
class DeviceSampler {
 public:
  struct Sample {
    int64_t at_ns = 0;    // CLOCK_MONOTONIC
    int64_t over_ns = 0;  // since the sample before, 0: the first
    // NVLink's bytes: of that time, not since the driver's start; empty in the first.
    std::vector<DeviceReading> devices;
  };

  explicit DeviceSampler(int64_t window_ns);
  ~DeviceSampler();

  std::vector<Sample> Take();  // since the last call; none older than a minute

 private:
  void Run();

  const int64_t window_ns_;
  std::unique_ptr<Nvml> nvml_;  // of the thread, once it runs
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;            // guarded by mutex_
  std::vector<Sample> samples_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace poolscope
