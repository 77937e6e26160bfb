#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace poolscope::trainer {

enum class PoolRole { kCompute, kUpdate };  // a monolithic worker is of pool compute

enum class DeviceKind { kCpu, kEmulated, kCuda };

// What --device says of one pool: "cpu", "emulated", "emulated:a100", "emulated:a100@0",
// "cuda", "cuda:1".
struct DeviceSpec {
  DeviceKind kind = DeviceKind::kCpu;
  std::string profile;             // kEmulated: of profiles.h; "": stated times
  std::optional<uint64_t> number;  // all workers of the pool share it; none: one each

  bool operator==(const DeviceSpec&) const = default;
};

const char* DeviceKindName(DeviceKind kind);  // "cpu", "emulated", "cuda"

// The string is an error: one line.
std::variant<DeviceSpec, std::string> ParseDeviceSpec(const std::string& text);

// What ParseDeviceSpec reads.
std::string DeviceName(const DeviceSpec& spec);

}  // namespace poolscope::trainer
