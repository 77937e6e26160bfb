#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace poolscope {

// A counter that a device's hardware samples (docs/cupti.md).
enum class DeviceMetric : uint8_t {
  kSm,
  kDram,
  kTensor,
  kNvlinkReceived,
  kNvlinkSent,
  kPcieReceived,
  kPcieSent,
  kCount
};
struct DeviceCounter {
  uint32_t device = 0;  // its process's number
  DeviceMetric metric = DeviceMetric::kCount;
};
// From the name of a counter of domain "cuda": "device 0.sm_active".
std::optional<DeviceCounter> DeviceCounterOf(std::string_view domain, std::string_view name);

struct DeviceSample {
  DeviceCounter counter;
  int64_t at_ns = 0;
  double value = 0;
};

// Which device it is. Where its UUID is known two processes mean the same one by it, whatever
// number each has for it.
struct DeviceId {
  std::string uuid;        // 36 characters, "" not known
  std::string session_id;  // of its process, "" where the UUID is known
  uint32_t device = 0;     // its process's number
  auto operator<=>(const DeviceId&) const = default;
};

// One run's samples, summed over windows of `window_ns`, aligned to its multiples.
class SampledDevices {
 public:
  struct Window {
    DeviceId device;
    int64_t start_ns = 0;
    std::array<std::optional<double>, static_cast<size_t>(DeviceMetric::kCount)> means;
  };

  explicit SampledDevices(int64_t window_ns = 1'000'000'000) : window_ns_(window_ns) {}

  // What began before was counted by a predecessor.
  void StartAt(int64_t ns) { from_ns_ = ns; }
  void Add(const DeviceId& device, const DeviceSample& sample);
  // The windows that end at or before `until_ns` and were not given, or changed since.
  std::vector<Window> Close(int64_t until_ns);

 private:
  static constexpr int64_t kLateNs = 10'000'000'000;  // that a window may still change for
  static constexpr size_t kMaxDevices = 4096;         // in all windows kept
  struct Sum {
    double sum = 0;
    int64_t samples = 0;
  };
  struct Sums {
    std::array<Sum, static_cast<size_t>(DeviceMetric::kCount)> metrics;
    bool changed = true;
  };

  const int64_t window_ns_;
  int64_t from_ns_ = 0;
  std::map<std::pair<int64_t, DeviceId>, Sums> sums_;  // by window's start
};

}  // namespace poolscope
