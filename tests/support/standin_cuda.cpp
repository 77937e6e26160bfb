// A libcuda that knows which devices the process was given, and their UUIDs:
// $POOLSCOPE_STANDIN_CUDA has NVML's number of each, "2 0" where the process's device 0 is the
// host's device 2. A device's UUID begins with that number, as standin_nvml.cpp has it.
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <vector>

namespace {

std::vector<unsigned> Devices() {
  const char* text = std::getenv("POOLSCOPE_STANDIN_CUDA");
  std::istringstream words(text != nullptr ? text : "");
  std::vector<unsigned> devices;
  for (unsigned device = 0; words >> device;) devices.push_back(device);
  return devices;
}

constexpr int kSuccess = 0, kInvalidDevice = 101;

}  // namespace

extern "C" {
int cuDeviceGet(int* handle, int device) {
  if (device < 0 || static_cast<size_t>(device) >= Devices().size()) return kInvalidDevice;
  *handle = device;
  return kSuccess;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int handle) {
  std::memset(uuid, 0, 16);
  uuid[3] = static_cast<unsigned char>(Devices().at(static_cast<size_t>(handle)));
  return kSuccess;
}
}
