#pragma once

#include <cstdint>
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
  EmulatedModel model;           // that emulated devices with a profile compute
  uint64_t per_worker = 1;       // devices that a compute worker's model and passes are spread over
  bool shared = false;           // update worker j is on the device of compute worker j mod C
  double memory_bytes = 0;       // of a device; 0: its profile's
  double memory_leak_bytes = 0;  // that a compute worker loses each step
  double time_scale = 1;         // by which all durations of devices and links are multiplied

  const DeviceSpec& Of(PoolRole pool) const {
    return pool == PoolRole::kCompute ? compute : update;
  }
  bool emulated() const { return compute.kind == DeviceKind::kEmulated; }
};

// The device that a worker is on; workers of one device take turns.
uint64_t DeviceOf(const Options& options, PoolRole pool, uint64_t index);

// The flags of devices, of the stated times and bytes, and of link profiles.
void AddDeviceOptions(CLI::App& app, Options& options);

// After parsing: what the flags mean together. Times, bytes and links become those of the cost
// model and the profiles, where no flag states them. One line of error, or "".
std::string ResolveDevices(const CLI::App& app, Options& options);

}  // namespace poolscope::trainer
