#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "collector/nvml.h"
#include "collector/sampled_devices.h"

namespace poolscope {

// Which number a device of this host has in windows and metrics: NVML's index. One that NVML does
// not know (there is none, a MIG instance, a driver that tells no UUID) has the first number from
// its process's own on that no other one has.
class DeviceNumbers {
 public:
  struct Device {
    int64_t number = 0;
    std::string uuid, name;  // as NVML writes them where it knows the device
  };

  void See(const DeviceReading& reading);
  const Device& Of(const DeviceId& id);

 private:
  std::map<std::string, Device> nvml_;  // by UUID without its prefix
  std::map<DeviceId, Device> others_;
};

}  // namespace poolscope
