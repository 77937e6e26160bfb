#pragma once

#include <cstddef>
#include <cstdint>

#include "agent/cupti_decode.h"
#include "agent/process.h"

namespace poolscope::agent::cupti {

// Counters that a device's hardware samples all the time (CUPTI's PM sampling), where that is
// permitted. One thread alone; memory is CUPTI's, or mapped.
class DeviceSampling {
 public:
  // Begins on a device, every `interval_ns`; inside an Inside. False: why not.
  bool Start(const Library& library, uint32_t device, uint64_t interval_ns, Reason* why);

  // Writes what was sampled since, as counters of domain "cuda" named "device 0.sm_active"; inside
  // an Inside. False: it went wrong, why; no more calls then.
  bool Read(ThreadWriter& writer, const DeviceClock& clock, Reason* why);

  static constexpr uint32_t kMostMetrics = 8;

 private:
  bool Choose(const char* chip, uint32_t device, Reason* why);
  bool MakeConfig(void* host);

  void* host_ = nullptr;
  void* object_ = nullptr;
  uint32_t count_ = 0;                    // metrics that one pass of this device can sample:
  const char* names_[kMostMetrics] = {};  // CUPTI's names
  uint32_t counters_[kMostMetrics] = {};  // string ids of ours
  double scales_[kMostMetrics] = {};      // to ours
  uint8_t *availability_ = nullptr, *config_ = nullptr, *data_ = nullptr;
  size_t config_bytes_ = 0, data_bytes_ = 0;
};

}  // namespace poolscope::agent::cupti
