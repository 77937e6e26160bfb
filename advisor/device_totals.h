#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "advisor/run_data.h"
#include "store/store.h"

namespace poolscope {

// What a host's device did in the analysed span: means over its windows, memory in use at its most.
struct DeviceReport {
  std::string host;
  int64_t device = 0;  // NVML's index (docs/devices.md)
  std::string uuid, name;
  std::string source;  // of the ratios: pm_sampling where the hardware sampled, else nvml
  std::optional<double> sm_ratio, dram_ratio, tensor_ratio;
  std::optional<int64_t> memory_used_bytes, memory_bytes;
};

// By host and device.
Result<std::vector<DeviceReport>> SumDevices(const Store& store, const RunData& run,
                                             const AnalysedSpan& span);

}  // namespace poolscope
