#pragma once

#include <map>
#include <string>

#include "advisor/run_data.h"
#include "store/store.h"

namespace poolscope {

// The fullest device of a pool, as far as the store tells. Bytes; 0: not known.
struct DeviceMemory {
  double used_bytes = 0;
  std::string used_from;  // "NVML", "counter update.device_memory_bytes"
  double memory_bytes = 0;
  std::string memory_from;
  double state_bytes = 0;  // optimizer state of all the pool's workers, but for what is offloaded
};

// By pool. What is used: counters POOL.device_memory_bytes of the pool's workers, else the device
// windows of their devices in the span, with all that other processes hold there. How much there
// is: setting POOL.memory_bytes, else counters POOL.device_memory_capacity_bytes, else the windows.
Result<std::map<std::string, DeviceMemory>> ReadDeviceMemory(const Store& store, const RunData& run,
                                                             const AnalysedSpan& span);

}  // namespace poolscope
