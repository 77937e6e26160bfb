#pragma once

#include <map>
#include <string>
#include <vector>

#include "advisor/device_memory.h"
#include "advisor/model.h"
#include "advisor/report.h"
#include "advisor/run_data.h"
#include "store/store.h"

namespace poolscope {

// What bounds a change: what the job or its mapping says of its pools (settings
// POOL.devices_per_replica, .batch, .device_type, .memory_bytes), and what their devices hold.
class PoolLimits {
 public:
  static Result<PoolLimits> Read(const Store& store, const RunData& run, const AnalysedSpan& span);

  // Why the pools cannot be so, whatever their memory, or "": workers that are no whole replicas, a
  // batch that these do not divide, a worker moved to a pool of devices of another type.
  std::string WhyNot(const Model& now, const Model& changed) const;

  // What a device of each pool would need; of the pools of which anything is known.
  std::vector<MemoryEstimate> Memory(const Model& now, const Model& changed) const;

 private:
  struct Pool {
    int block = 1;  // devices_per_replica
    int batch = 0;  // 0: any
    std::string device_type;
    DeviceMemory memory;
  };
  MemoryEstimate Estimate(bool update, const Model& now, const Model& changed) const;

  std::map<std::string, Pool> pools_;
};

// "a device of update would need 91.2 GB, more than its 80 GB (...)", of the first pool; "" where
// there is none.
std::string WhatDoesNotFit(const std::vector<MemoryEstimate>& memory);

// "update needs 81.6 GB of 85.9 GB a device (...)".
std::string MemoryAsText(const MemoryEstimate& pool);

}  // namespace poolscope
