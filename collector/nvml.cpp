#include "collector/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "collector/nvml_abi.h"

namespace poolscope {

// Those that are missing stay null.
struct Nvml::Functions {
  nvml::Return (*init)();
  nvml::Return (*shutdown)();
  nvml::Return (*count)(unsigned int*);
  nvml::Return (*handle)(unsigned int, nvml::Device*);
  nvml::Return (*uuid)(nvml::Device, char*, unsigned int);
  nvml::Return (*name)(nvml::Device, char*, unsigned int);
  nvml::Return (*utilization)(nvml::Device, nvml::Utilization*);
  nvml::Return (*memory)(nvml::Device, nvml::Memory*);
  nvml::Return (*clock)(nvml::Device, int, unsigned int*);
  nvml::Return (*pcie)(nvml::Device, int, unsigned int*);
  nvml::Return (*fields)(nvml::Device, int, nvml::FieldValue*);
};

namespace {

template <typename Function, typename... Arguments>
bool Ask(Function* function, Arguments... arguments) {
  return function != nullptr && function(arguments...) == nvml::kSuccess;
}

std::optional<int64_t> Kibibytes(const nvml::FieldValue& field) {
  if (field.result != nvml::kSuccess) return std::nullopt;
  const uint64_t kib = field.value_type == nvml::kTypeUnsigned ? field.value.as_unsigned
                                                               : field.value.as_unsigned_64;
  return static_cast<int64_t>(kib * 1024);
}

}  // namespace

Nvml::Nvml() : functions_(std::make_unique<Functions>()) {}

Nvml::~Nvml() {
  if (library_ == nullptr) return;
  Ask(functions_->shutdown);
  dlclose(library_);
}

Result<std::unique_ptr<Nvml>> Nvml::Load() {
  const char* chosen = std::getenv("POOLSCOPE_NVML");
  const char* path = chosen != nullptr && *chosen != 0 ? chosen : "libnvidia-ml.so.1";
  std::unique_ptr<Nvml> nvml(new Nvml);
  nvml->library_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (nvml->library_ == nullptr) return Error{fmt::format("no {}: no device metrics", path)};
  Functions& functions = *nvml->functions_;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(nvml->library_, name));
  };
  find(functions.init, "nvmlInit_v2");
  find(functions.shutdown, "nvmlShutdown");
  find(functions.count, "nvmlDeviceGetCount_v2");
  find(functions.handle, "nvmlDeviceGetHandleByIndex_v2");
  find(functions.uuid, "nvmlDeviceGetUUID");
  find(functions.name, "nvmlDeviceGetName");
  find(functions.utilization, "nvmlDeviceGetUtilizationRates");
  find(functions.memory, "nvmlDeviceGetMemoryInfo");
  find(functions.clock, "nvmlDeviceGetClockInfo");
  find(functions.pcie, "nvmlDeviceGetPcieThroughput");
  find(functions.fields, "nvmlDeviceGetFieldValues");
  unsigned int count = 0;
  if (!Ask(functions.init) || !Ask(functions.count, &count)) {
    return Error{fmt::format("{} does not start (is the driver loaded?): no device metrics", path)};
  }
  return nvml;
}

std::vector<DeviceReading> Nvml::Read() {
  const Functions& functions = *functions_;
  std::vector<DeviceReading> readings;
  unsigned int count = 0;
  if (!Ask(functions.count, &count)) return readings;
  for (unsigned int i = 0; i < count && i < 1024; ++i) {
    nvml::Device device = nullptr;
    if (!Ask(functions.handle, i, &device)) continue;
    DeviceReading& reading = readings.emplace_back();
    reading.device = i;
    char text[96] = "";
    if (Ask(functions.uuid, device, text, unsigned{sizeof(text)})) reading.uuid = text;
    if (Ask(functions.name, device, text, unsigned{sizeof(text)})) reading.name = text;
    if (nvml::Utilization rates; Ask(functions.utilization, device, &rates)) {
      reading.sm_ratio = rates.gpu / 100.0;
      reading.dram_ratio = rates.memory / 100.0;
    }
    if (nvml::Memory memory; Ask(functions.memory, device, &memory)) {
      reading.memory_used_bytes = static_cast<int64_t>(memory.used);
      reading.memory_total_bytes = static_cast<int64_t>(memory.total);
    }
    const auto number = [&](auto* function, int which, int64_t unit) -> std::optional<int64_t> {
      unsigned int value = 0;
      if (!Ask(function, device, which, &value)) return std::nullopt;
      return value * unit;
    };
    reading.sm_hertz = number(functions.clock, nvml::kClockSm, 1'000'000);
    reading.memory_hertz = number(functions.clock, nvml::kClockMemory, 1'000'000);
    reading.pcie_sent_bytes = number(functions.pcie, nvml::kPcieSent, 1024);
    reading.pcie_received_bytes = number(functions.pcie, nvml::kPcieReceived, 1024);
    nvml::FieldValue links[2] = {};
    links[0].field = nvml::kFieldNvlinkSent;
    links[1].field = nvml::kFieldNvlinkReceived;
    links[0].scope = links[1].scope = nvml::kAllLinks;
    if (Ask(functions.fields, device, 2, &links[0])) {
      reading.nvlink_sent_bytes = Kibibytes(links[0]);
      reading.nvlink_received_bytes = Kibibytes(links[1]);
    }
  }
  return readings;
}

}  // namespace poolscope
