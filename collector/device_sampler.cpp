#include "collector/device_sampler.h"

#include <chrono>
#include <map>

#include "trace/clock.h"

namespace poolscope {
namespace {

constexpr size_t kMaxSamples = 60;

std::optional<int64_t> Since(const std::optional<int64_t>& before,
                             const std::optional<int64_t>& now) {
  if (!before.has_value() || !now.has_value() || *now < *before) return std::nullopt;
  return *now - *before;
}

}  // namespace

DeviceSampler::DeviceSampler(int64_t window_ns) : window_ns_(window_ns) {
  auto nvml = Nvml::Load();
  if (!nvml.ok()) return;
  nvml_ = std::move(*nvml);
  thread_ = std::thread([this] { Run(); });
}

DeviceSampler::~DeviceSampler() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stop_changed_.notify_all();
  thread_.join();
}

void DeviceSampler::Run() {
  std::map<std::string, DeviceReading> before;
  int64_t before_ns = 0;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    Sample sample;
    sample.devices = nvml_->Read();
    sample.at_ns = MonotonicNs();
    if (before_ns != 0) sample.over_ns = sample.at_ns - before_ns;
    before_ns = sample.at_ns;
    for (DeviceReading& device : sample.devices) {
      const DeviceReading now = device;
      DeviceReading& last = before[device.uuid];
      device.nvlink_sent_bytes = Since(last.nvlink_sent_bytes, now.nvlink_sent_bytes);
      device.nvlink_received_bytes = Since(last.nvlink_received_bytes, now.nvlink_received_bytes);
      last = now;
    }
    lock.lock();
    if (samples_.size() >= kMaxSamples) samples_.erase(samples_.begin());
    samples_.push_back(std::move(sample));
    stop_changed_.wait_for(lock, std::chrono::nanoseconds(window_ns_), [&] { return stop_; });
  }
}

std::vector<DeviceSampler::Sample> DeviceSampler::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(samples_, {});
}

}  // namespace poolscope
