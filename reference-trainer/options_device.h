#pragma once

#include <string>

#include "reference-trainer/cost_model.h"
#include "reference-trainer/device_spec.h"

namespace CLI {
class App;
}

namespace poolscope::trainer {

struct Options;

// What the pools compute on. Both are emulated, or neither is.
struct DeviceOptions {
  DeviceSpec compute, update;
  Precision precision = Precision::kFp32;
  EmulatedModel model;      // that emulated devices with a profile compute
  double memory_bytes = 0;  // of each device; 0: its profile's
  double leak_bytes = 0;    // that a worker of pool compute keeps of each step
  double time_scale =
      1;  // that all durations of emulated devices and links have been multiplied by

  bool emulated() const { return compute.kind == DeviceKind::kEmulated; }
};

// The flags of devices, of the stated times and bytes, and of link profiles.
void AddDeviceOptions(CLI::App& app, Options& options);

// After parsing: what the flags mean together. Times, bytes and links become those of the cost
// model and the profiles, where no flag states them. One line of error, or "".
std::string ResolveDevices(const CLI::App& app, Options& options);

}  // namespace poolscope::trainer
