#include "collector/device_numbers.h"

#include <algorithm>

namespace poolscope {

void DeviceNumbers::See(const DeviceReading& reading) {
  const size_t prefix = reading.uuid.find('-');  // "GPU-"
  const std::string uuid = reading.uuid.substr(prefix == std::string::npos ? 0 : prefix + 1);
  nvml_[uuid] = {reading.device, reading.uuid, reading.name};
}

const DeviceNumbers::Device& DeviceNumbers::Of(const DeviceId& id) {
  if (const auto known = nvml_.find(id.uuid); known != nvml_.end()) return known->second;
  const auto [other, fresh] = others_.try_emplace(id, Device{id.device, id.uuid, ""});
  if (!fresh) return other->second;
  const auto taken = [&](int64_t number) {
    const auto has = [&](const auto& entry) {
      return entry.second.number == number && &entry.second != &other->second;
    };
    return std::any_of(nvml_.begin(), nvml_.end(), has) ||
           std::any_of(others_.begin(), others_.end(), has);
  };
  while (taken(other->second.number)) ++other->second.number;
  return other->second;
}

}  // namespace poolscope
