#include "reference-trainer/slow_device.h"

#include <cmath>

#include "reference-trainer/timing.h"

namespace poolscope::trainer {

void SlowDevice::AtStep(uint64_t step) {
  device_->AtStep(step);
  factor_ = 1;
  for (const auto& each : slow_) {
    if (step >= each.from && step <= each.to) factor_ *= each.factor;
  }
  std::erase_if(stalls_, [&](const SlownessOptions::Stall& each) {
    if (step < each.step) return false;
    stall_seconds_ += each.seconds;
    return true;
  });
}

void SlowDevice::AwaitTurn(double seconds) {
  if (emulated_) device_->AwaitTurn(seconds * factor_ + stall_seconds_);
}

uint64_t SlowDevice::Run(double seconds, const std::function<void()>& math) {
  const double stall = std::exchange(stall_seconds_, 0);
  if (emulated_) return device_->Run(seconds * factor_ + stall, math);
  return device_->Run(seconds, [&] {
    const int64_t begin = NowNs();
    if (math) math();
    const int64_t end = NowNs();
    const double extra = (factor_ - 1) * static_cast<double>(end - begin) + stall * 1e9;
    if (extra > 0) SleepUntilNs(end + std::llround(extra));
  });
}

std::unique_ptr<Device> Slowed(std::unique_ptr<Device> device, bool emulated,
                               const SlownessOptions& options, const WorkerName& worker) {
  const auto concerns = [&](const auto& each) {
    return each.worker.pool == worker.pool && each.worker.index == worker.index;
  };
  std::vector<SlownessOptions::Slow> slow;
  std::vector<SlownessOptions::Stall> stalls;
  std::copy_if(options.slow.begin(), options.slow.end(), std::back_inserter(slow), concerns);
  std::copy_if(options.stalls.begin(), options.stalls.end(), std::back_inserter(stalls), concerns);
  if (slow.empty() && stalls.empty()) return device;
  return std::make_unique<SlowDevice>(std::move(device), emulated, std::move(slow),
                                      std::move(stalls));
}

}  // namespace poolscope::trainer
