#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trace/result.h"

namespace poolscope {

// What NVIDIA's management library says of one device; what a device does not know is empty.
// Utilisation is of the driver's last sample period (up to a second); rates and counts as named.
struct DeviceReading {
  int64_t device = 0;  // NVML's index: in the order of PCI addresses, whatever CUDA_VISIBLE_DEVICES
  std::string uuid, name;
  std::optional<double> sm_ratio;    // of time in which a kernel ran, on however few SMs
  std::optional<double> dram_ratio;  // of time in which device memory was read or written
  std::optional<int64_t> memory_used_bytes, memory_total_bytes;
  std::optional<int64_t> sm_hertz, memory_hertz;
  std::optional<int64_t> pcie_sent_bytes, pcie_received_bytes;      // a second, over the last 20 ms
  std::optional<int64_t> nvlink_sent_bytes, nvlink_received_bytes;  // since the driver started
};

// libnvidia-ml, loaded when it is there. One thread at a time.
class Nvml {
 public:
  // From $POOLSCOPE_NVML, else libnvidia-ml.so.1. The error says what is missing.
  static Result<std::unique_ptr<Nvml>> Load();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::vector<DeviceReading> Read();  // takes some 50 ms a device: PCIe rates are measured

 private:
  struct Functions;
  Nvml();
  void* library_ = nullptr;
  std::unique_ptr<Functions> functions_;
};

}  // namespace poolscope
