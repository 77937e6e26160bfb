#include "advisor/device_totals.h"

#include <algorithm>
#include <map>

namespace poolscope {
namespace {

struct Mean {
  double sum = 0;
  int64_t windows = 0;

  void Add(const std::optional<double>& value) {
    if (!value.has_value()) return;
    sum += *value;
    ++windows;
  }
  std::optional<double> value() const {
    if (windows == 0) return std::nullopt;
    return sum / static_cast<double>(windows);
  }
};

void Most(const std::optional<int64_t>& value, std::optional<int64_t>& most) {
  if (value.has_value()) most = std::max(*value, most.value_or(0));
}

}  // namespace

Result<std::vector<DeviceReport>> SumDevices(const Store& store, const RunData& run,
                                             const AnalysedSpan& span) {
  const auto windows = store.DeviceWindows(run.run.run_id, {span.begin_ns, span.end_ns});
  if (!windows.ok()) return windows.error();
  struct Sums {
    DeviceReport device;
    Mean sm, dram, tensor;
  };
  std::map<std::pair<std::string, int64_t>, Sums> devices;
  for (const DeviceWindowRow& window : *windows) {
    Sums& sums = devices[{window.host, window.device}];
    DeviceReport& device = sums.device;
    device.host = window.host;
    device.device = window.device;
    if (device.uuid.empty()) device.uuid = window.uuid;
    if (device.name.empty()) device.name = window.name;
    Most(window.memory_used_bytes, device.memory_used_bytes);
    Most(window.memory_bytes, device.memory_bytes);
    if (device.source == kSampledByHardware && window.source != kSampledByHardware) continue;
    if (device.source != window.source) sums.sm = sums.dram = sums.tensor = {};
    device.source = window.source;
    sums.sm.Add(window.sm_ratio);
    sums.dram.Add(window.dram_ratio);
    sums.tensor.Add(window.tensor_ratio);
  }
  std::vector<DeviceReport> reports;
  for (auto& [key, sums] : devices) {
    DeviceReport& device = reports.emplace_back(std::move(sums.device));
    device.sm_ratio = sums.sm.value();
    device.dram_ratio = sums.dram.value();
    device.tensor_ratio = sums.tensor.value();
  }
  return reports;
}

}  // namespace poolscope
