#pragma once

#include <span>
#include <string>

namespace poolscope::trainer {

enum class Precision { kFp32, kBf16 };  // of weights, gradients and products
const char* PrecisionName(Precision precision);
inline double BytesOf(Precision precision) { return precision == Precision::kFp32 ? 4 : 2; }

// A device as its vendor states it, and the share of that which training gets out of it.
struct DeviceProfile {
  const char* name;         // of --device emulated:NAME
  double fp32_flops;        // peak, dense, FLOP/s
  double bf16_flops;        // with fp32 accumulation
  double compute_fraction;  // achieved ÷ peak in training
  double bytes_per_second;  // of its memory, peak
  double memory_fraction;   // achieved ÷ peak
  double memory_bytes;
  double launch_seconds;  // that a kernel in a row costs beyond its work
  const char* host_link;  // to its host: the name of a LinkProfile
  const char* source;

  double flops(Precision precision) const {  // achieved
    return compute_fraction * (precision == Precision::kFp32 ? fp32_flops : bf16_flops);
  }
  double achieved_bytes_per_second() const { return memory_fraction * bytes_per_second; }
};

// A channel of one device, in one direction.
struct LinkProfile {
  const char* name;  // of --link NAME
  double bytes_per_second;
  double fraction;         // achieved ÷ peak
  double latency_seconds;  // of a small message
  const char* source;

  double achieved_bytes_per_second() const { return fraction * bytes_per_second; }
};

std::span<const DeviceProfile> DeviceProfiles();
std::span<const LinkProfile> LinkProfiles();

// Null where there is none of that name.
const DeviceProfile* FindDeviceProfile(const std::string& name);
const LinkProfile* FindLinkProfile(const std::string& name);

std::string KnownDeviceProfiles();  // "a100, h100, ..."
std::string KnownLinkProfiles();

// Both tables as `poolscope-trainer profiles` prints them.
std::string PrintProfiles();

}  // namespace poolscope::trainer
