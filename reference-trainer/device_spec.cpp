#include "reference-trainer/device_spec.h"

#include <fmt/format.h>

#include <charconv>

#include "reference-trainer/profiles.h"

namespace poolscope::trainer {
namespace {

constexpr uint64_t kMaxNumber = 255;

}  // namespace

const char* DeviceKindName(DeviceKind kind) {
  return kind == DeviceKind::kCpu ? "cpu" : kind == DeviceKind::kCuda ? "cuda" : "emulated";
}

std::variant<DeviceSpec, std::string> ParseDeviceSpec(const std::string& text) {
  DeviceSpec spec;
  std::string kind = text;
  const bool cuda = text == "cuda" || text.starts_with("cuda:");
  if (const size_t at = kind.find(cuda ? ':' : '@'); at != std::string::npos) {
    const char* const end = kind.data() + kind.size();
    uint64_t number = 0;
    const auto read = std::from_chars(kind.data() + at + 1, end, number);
    if (read.ec != std::errc() || read.ptr != end || number > kMaxNumber) {
      return fmt::format("'{}': the number of a device is 0 to {}", text, kMaxNumber);
    }
    spec.number = number;
    kind.resize(at);
  }
  if (const size_t at = kind.find(':'); at != std::string::npos) {
    spec.profile = kind.substr(at + 1);
    kind.resize(at);
    if (kind != "emulated" || !FindDeviceProfile(spec.profile)) {
      return fmt::format("'{}': profiles are emulated:NAME with NAME {}", text,
                         KnownDeviceProfiles());
    }
  }
  if (cuda) {
    spec.kind = DeviceKind::kCuda;
    return spec;
  }
  if (kind == "cpu" && !spec.number) return spec;
  if (kind != "emulated")
    return fmt::format("'{}' is no device: cpu, cuda[:N], emulated[:PROFILE][@N]", text);
  spec.kind = DeviceKind::kEmulated;
  return spec;
}

std::string DeviceName(const DeviceSpec& spec) {
  std::string name = DeviceKindName(spec.kind);
  if (!spec.profile.empty()) name += ":" + spec.profile;
  if (spec.number)
    name += (spec.kind == DeviceKind::kCuda ? ":" : "@") + std::to_string(*spec.number);
  return name;
}

}  // namespace poolscope::trainer
