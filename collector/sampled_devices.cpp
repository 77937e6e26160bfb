#include "collector/sampled_devices.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace poolscope {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(DeviceMetric::kCount)> kNames = {
    "sm_active",
    "dram_active",
    "tensor_active",
    "nvlink_receive_bytes_per_second",
    "nvlink_send_bytes_per_second",
    "pcie_read_bytes_per_second",
    "pcie_write_bytes_per_second"};

}  // namespace

std::optional<DeviceCounter> DeviceCounterOf(std::string_view domain, std::string_view name) {
  constexpr std::string_view kPrefix = "device ";
  if (domain != "cuda" || !name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  DeviceCounter counter;
  const auto [dot, error] = std::from_chars(name.begin(), name.end(), counter.device);
  if (error != std::errc() || dot == name.end() || *dot != '.') return std::nullopt;
  const auto found = std::find(kNames.begin(), kNames.end(), std::string_view(dot + 1, name.end()));
  if (found == kNames.end()) return std::nullopt;
  counter.metric = static_cast<DeviceMetric>(found - kNames.begin());
  return counter;
}

void SampledDevices::Add(const DeviceId& device, const DeviceSample& sample) {
  const int64_t start_ns = sample.at_ns / window_ns_ * window_ns_;
  if (start_ns < from_ns_) return;
  const std::pair key{start_ns, device};
  if (sums_.size() >= kMaxDevices && !sums_.contains(key)) return;
  Sums& sums = sums_[key];
  Sum& sum = sums.metrics[static_cast<size_t>(sample.counter.metric)];
  sum.sum += sample.value;
  ++sum.samples;
  sums.changed = true;
}

std::vector<SampledDevices::Window> SampledDevices::Close(int64_t until_ns) {
  std::vector<Window> windows;
  for (auto& [key, sums] : sums_) {
    if (key.first > until_ns - window_ns_) break;
    if (!std::exchange(sums.changed, false)) continue;
    Window& window = windows.emplace_back(Window{key.second, key.first, {}});
    for (size_t i = 0; i < sums.metrics.size(); ++i) {
      const Sum& sum = sums.metrics[i];
      if (sum.samples != 0) window.means[i] = sum.sum / static_cast<double>(sum.samples);
    }
  }
  if (until_ns == INT64_MAX) return windows;
  from_ns_ = std::max(from_ns_, (until_ns - kLateNs) / window_ns_ * window_ns_);
  while (!sums_.empty() && sums_.begin()->first.first < from_ns_) sums_.erase(sums_.begin());
  return windows;
}

}  // namespace poolscope
