#pragma once

#include <cstdint>

// The part of NVML's interface that is used here, declared on our own; nvml_test.cpp compares it
// with nvml.h where that is installed.
namespace poolscope::nvml {

using Device = struct DeviceHandle*;
using Return = int;
inline constexpr Return kSuccess = 0;

struct Utilization {
  unsigned int gpu;     // percent
  unsigned int memory;  // percent
};
struct Memory {
  unsigned long long total, free, used;  // bytes
};
enum ClockType : int { kClockSm = 1, kClockMemory = 2 };
enum PcieCounter : int { kPcieSent = 0, kPcieReceived = 1 };
inline constexpr unsigned int kFieldNvlinkSent = 138;      // KiB of data, cumulative
inline constexpr unsigned int kFieldNvlinkReceived = 139;  // likewise
inline constexpr unsigned int kAllLinks = ~0u;
struct FieldValue {
  unsigned int field;
  unsigned int scope;  // link
  long long timestamp_us;
  long long latency_us;
  int value_type;
  Return result;
  union {
    double as_double;
    unsigned int as_unsigned;
    unsigned long long as_unsigned_64;
  } value;
};
enum ValueType : int { kTypeUnsigned = 1, kTypeUnsignedLong = 2, kTypeUnsigned64 = 3 };
static_assert(sizeof(FieldValue) == 40);

}  // namespace poolscope::nvml
