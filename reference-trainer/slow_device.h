#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "reference-trainer/device.h"
#include "reference-trainer/options_slowness.h"

namespace poolscope::trainer {

// A device that is slower than it should be, now and then: its operations take a multiple of their
// time, or one of them stops in its middle. On a device of real arithmetic the extra time is slept.
class SlowDevice : public Device {
 public:
  SlowDevice(std::unique_ptr<Device> device, bool emulated, std::vector<SlownessOptions::Slow> slow,
             std::vector<SlownessOptions::Stall> stalls)
      : device_(std::move(device)),
        emulated_(emulated),
        slow_(std::move(slow)),
        stalls_(std::move(stalls)) {}

  uint64_t Run(double seconds, const std::function<void()>& math) override;
  void AwaitTurn(double seconds) override;
  void AtStep(uint64_t step) override;
  void Waited() override { device_->Waited(); }

 private:
  const std::unique_ptr<Device> device_;
  const bool emulated_;
  const std::vector<SlownessOptions::Slow> slow_;
  std::vector<SlownessOptions::Stall> stalls_;  // still to come
  double factor_ = 1;
  double stall_seconds_ = 0;  // of the next operation
};

// `device` as it is, or slowed where `options` name the worker.
std::unique_ptr<Device> Slowed(std::unique_ptr<Device> device, bool emulated,
                               const SlownessOptions& options, const WorkerName& worker);

}  // namespace poolscope::trainer
