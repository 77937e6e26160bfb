// A libnvidia-ml whose devices a file describes: $POOLSCOPE_STANDIN_NVML, read at each question, a
// line "DEVICE KEY VALUE" each. Keys: gpu, memory (percent), used, total (bytes), sm, mem (MHz),
// sent, received (PCIe, KiB/s), nvlink_sent, nvlink_received (KiB so far). A device without a key
// does not support what it is about; devices are 0 to the largest named.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "collector/nvml_abi.h"

namespace {

using namespace poolscope::nvml;

constexpr Return kNotSupported = 3, kNotFound = 6;

std::optional<unsigned long long> Look(unsigned int device, const char* key,
                                       unsigned int* devices = nullptr) {
  const char* path = std::getenv("POOLSCOPE_STANDIN_NVML");
  std::ifstream file(path != nullptr ? path : "");
  std::optional<unsigned long long> found;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    unsigned int of = 0;
    std::string name;
    unsigned long long value = 0;
    if (!(words >> of >> name >> value)) continue;
    if (devices != nullptr && of >= *devices) *devices = of + 1;
    if (of == device && name == key) found = value;
  }
  return found;
}

unsigned int IndexOf(Device device) {
  return static_cast<unsigned int>(reinterpret_cast<uintptr_t>(device)) - 1;
}

template <typename T>
Return Say(Device device, const char* key, T* out) {
  const auto value = Look(IndexOf(device), key);
  if (!value.has_value()) return kNotSupported;
  *out = static_cast<T>(*value);
  return kSuccess;
}

}  // namespace

extern "C" {
Return nvmlInit_v2() { return std::getenv("POOLSCOPE_STANDIN_NVML") != nullptr ? kSuccess : 9; }
Return nvmlShutdown() { return kSuccess; }
Return nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 0;
  Look(0, "", count);
  return kSuccess;
}
Return nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device* device) {
  *device = reinterpret_cast<Device>(uintptr_t{index} + 1);
  return kSuccess;
}
Return nvmlDeviceGetUUID(Device device, char* text, unsigned int bytes) {
  std::snprintf(text, bytes, "GPU-%08x-0000-0000-0000-000000000000", IndexOf(device));
  return kSuccess;
}
Return nvmlDeviceGetName(Device, char* text, unsigned int bytes) {
  std::snprintf(text, bytes, "Stand-in");
  return kSuccess;
}
Return nvmlDeviceGetUtilizationRates(Device device, Utilization* out) {
  const Return gpu = Say(device, "gpu", &out->gpu);
  return gpu != kSuccess ? gpu : Say(device, "memory", &out->memory);
}
Return nvmlDeviceGetMemoryInfo(Device device, Memory* out) {
  const Return used = Say(device, "used", &out->used);
  return used != kSuccess ? used : Say(device, "total", &out->total);
}
Return nvmlDeviceGetClockInfo(Device device, int type, unsigned int* mhz) {
  return type == kClockSm       ? Say(device, "sm", mhz)
         : type == kClockMemory ? Say(device, "mem", mhz)
                                : kNotFound;
}
Return nvmlDeviceGetPcieThroughput(Device device, int counter, unsigned int* kib) {
  return Say(device, counter == kPcieSent ? "sent" : "received", kib);
}
Return nvmlDeviceGetFieldValues(Device device, int count, FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    const char* key = values[i].field == kFieldNvlinkSent ? "nvlink_sent" : "nvlink_received";
    values[i].value_type = kTypeUnsigned64;
    values[i].result = values[i].scope == kAllLinks
                           ? Say(device, key, &values[i].value.as_unsigned_64)
                           : kNotSupported;
  }
  return kSuccess;
}
}
