#include "reference-trainer/memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference-trainer/options.h"

namespace poolscope::trainer {
namespace {

constexpr double kGiga = 1e9;

double Activations(const Options& options) {
  const EmulatedModel& model = options.devices.model;
  const double scale = BytesOf(options.devices.precision) / BytesOf(Precision::kBf16);
  return 34 * scale * static_cast<double>(model.layers) * model.tokens() *
         static_cast<double>(model.width);
}

double Capacity(const DeviceOptions& devices, const DeviceSpec& device) {
  if (devices.memory_bytes > 0) return devices.memory_bytes;
  return FindDeviceProfile(device.profile)->memory_bytes;
}

}  // namespace

double MemoryNeed::bytes() const {
  double sum = 0;
  for (const MemoryPart& part : parts) sum += part.bytes;
  return sum;
}

std::vector<MemoryNeed> MemoryNeeds(const Options& options, uint64_t steps) {
  const DeviceOptions& devices = options.devices;
  if (devices.compute.profile.empty()) return {};
  const double parameters = devices.model.parameters;
  const double element = BytesOf(devices.precision);
  const MemoryPart weights = {"weights", element * parameters};
  const MemoryPart sum = {"gradients", 4 * parameters};
  const MemoryPart activations = {"activations", Activations(options)};
  const MemoryPart leaked = {"leaked", devices.leak_bytes * static_cast<double>(steps)};
  if (options.mode == Mode::kMonolithic) {
    return {{"the worker",
             {weights,
              sum,
              {"master weights", 4 * parameters},
              {"moments", 8 * parameters},
              activations,
              leaked},
             Capacity(devices, devices.compute)}};
  }
  const double part = parameters / static_cast<double>(options.update_workers);
  const OffloadOptions& offload = options.state.offload;
  const double resident = offload.to == Offload::kNone ? 1 : offload.resident_fraction;
  const auto depth = [](const LinkOptions& link) { return static_cast<double>(link.shape.depth); };
  return {
      {"a worker of pool compute",
       {weights, sum, activations, {"buffers", depth(options.weights) * element * part}, leaked},
       Capacity(devices, devices.compute)},
      {"a worker of pool update",
       {{"gradients", 4 * part},
        {"master weights", 4 * part * resident},
        {"moments", 8 * part * resident},
        {"buffers", depth(options.gradients) * element * part}},
       Capacity(devices, devices.update)}};
}

std::string CheckMemory(const Options& options, uint64_t steps) {
  for (const MemoryNeed& need : MemoryNeeds(options, steps)) {
    if (need.bytes() <= need.capacity) continue;
    std::vector<std::string> parts;
    for (const MemoryPart& part : need.parts) {
      if (part.bytes > 0) parts.push_back(fmt::format("{} {:.1f}", part.name, part.bytes / kGiga));
    }
    return fmt::format("out of memory: {} needs {:.1f} GB of its device's {:.1f} GB: {} GB",
                       need.worker, need.bytes() / kGiga, need.capacity / kGiga,
                       fmt::join(parts, ", "));
  }
  return "";
}

}  // namespace poolscope::trainer
