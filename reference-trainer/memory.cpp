#include "reference-trainer/memory.h"

#include <fmt/format.h>
#include <poolscope/annotate.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "reference-trainer/options.h"

namespace poolscope::trainer {
namespace {

// Of a block, per token and channel, with 16-bit values and without the attention matrix, which
// FlashAttention does not keep: 34 (Korthikanti et al. 2022, section 4.1).
constexpr double kActivationBytes = 34;

double Activations(const Options& options) {
  const EmulatedModel& model = options.devices.model;
  return kActivationBytes * BytesOf(options.devices.precision) / 2 * model.tokens() *
         static_cast<double>(model.width) * static_cast<double>(model.layers);
}

double ParametersOf(const Options& options) {
  const double of_model = options.devices.model.parameters;
  return of_model > 0 ? of_model : static_cast<double>(options.weight_bytes) / sizeof(float);
}

// One message between a compute worker and a shard.
double MessageBytes(const LinkOptions& link, uint64_t bytes, double share) {
  return static_cast<double>(bytes) * StatedFigures(link.codec).ratio * share;
}

// Share of the weights that a compute worker holds at once: with parameter fetch those of the stage
// that runs, of the stages asked for ahead, and of the blocks kept beside them.
double HeldWeights(const Options& options) {
  if (!options.fetch.on) return 1;
  const double stages = static_cast<double>(options.model.layers) + 2;  // embedding, head
  const double blocks = stages * static_cast<double>(options.update_workers);
  return std::min(1.0, (1 + static_cast<double>(options.fetch.prefetch_depth)) / stages +
                           static_cast<double>(options.fetch.cache_blocks) / blocks);
}

// Share of the weights in one message to a compute worker.
double WeightsShare(const Options& options) {
  const double of_shard = 1.0 / static_cast<double>(options.update_workers);
  return options.fetch.on ? of_shard / (static_cast<double>(options.model.layers) + 2) : of_shard;
}

std::string Gigabytes(double bytes) { return fmt::format("{:.4g} GB", bytes / 1e9); }

}  // namespace

double MemoryNeed::total() const {
  double sum = 0;
  for (const Part& part : parts) sum += part.bytes;
  return sum;
}

MemoryNeed MemoryOf(const Options& options, PoolRole pool, uint64_t index) {
  const bool monolithic = options.mode == Mode::kMonolithic;
  const LinkOptions &gradients = options.gradients, &weights = options.weights;
  MemoryNeed need;
  if (pool == PoolRole::kCompute) {
    const double parameters = ParametersOf(options);
    // In fp32 a monolithic worker computes with the master weights.
    const bool own = !monolithic || options.devices.precision != Precision::kFp32;
    if (own) {
      need.parts.push_back(
          {"weights", HeldWeights(options) * parameters * BytesOf(options.devices.precision)});
    }
    if (!monolithic) need.parts.push_back({"gradients", parameters * sizeof(float)});
    need.parts.push_back({"activations", Activations(options)});
    if (!monolithic) {
      const double shard = 1.0 / static_cast<double>(options.update_workers);
      need.parts.push_back(
          {"messages", static_cast<double>(weights.shape.depth) *
                               MessageBytes(weights, options.weight_bytes, WeightsShare(options)) +
                           MessageBytes(gradients, options.gradient_bytes, shard)});
    }
  }
  if (monolithic || pool == PoolRole::kUpdate) {
    const StateSizes state = StateOfWorkers(options)[index];
    need.parts.push_back({"optimizer state", static_cast<double>(state.resident())});
  }
  if (pool == PoolRole::kUpdate) {
    const double shard = SharesOfWorkers(options)[index];
    need.parts.push_back(
        {"messages", static_cast<double>(gradients.shape.depth) *
                             MessageBytes(gradients, options.gradient_bytes, shard) +
                         MessageBytes(weights, options.weight_bytes, shard)});
  }
  if (pool == PoolRole::kCompute) {
    for (MemoryNeed::Part& part : need.parts) {
      part.bytes /= static_cast<double>(options.devices.per_worker);
    }
  }
  return need;
}

double DeviceCapacity(const Options& options, PoolRole pool) {
  const DeviceOptions& devices = options.devices;
  if (devices.memory_bytes > 0) return devices.memory_bytes;
  const DeviceSpec& spec = devices.Of(pool);
  return spec.profile.empty() ? 0 : FindDeviceProfile(spec.profile)->memory_bytes;
}

std::string CheckMemory(const Options& options) {
  if (!options.devices.emulated()) return "";
  const bool monolithic = options.mode == Mode::kMonolithic;
  struct Held {
    double bytes = 0, capacity = 0;
    std::string what;
  };
  std::map<uint64_t, Held> by_device;
  const auto add = [&](PoolRole pool, const char* name, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      const MemoryNeed need = MemoryOf(options, pool, i);
      Held& held = by_device[DeviceOf(options, pool, i)];
      held.bytes += need.total();
      held.capacity = DeviceCapacity(options, pool);
      held.what += fmt::format("{}{}/{}", held.what.empty() ? "" : "; ", name, i);
      const char* separator = " ";
      for (const MemoryNeed::Part& part : need.parts) {
        held.what += fmt::format("{}{} {}", separator, part.name, Gigabytes(part.bytes));
        separator = ", ";
      }
    }
  };
  add(PoolRole::kCompute, "compute", monolithic ? 1 : options.compute_workers);
  if (!monolithic) add(PoolRole::kUpdate, "update", options.update_workers);
  for (const auto& [device, held] : by_device) {
    if (held.capacity == 0 || held.bytes <= held.capacity) continue;
    return fmt::format("out of device memory: a device of {} would have to hold {}: {}",
                       Gigabytes(held.capacity), Gigabytes(held.bytes), held.what);
  }
  return "";
}

MemoryUse::MemoryUse(const Options& options, PoolRole pool, uint64_t index)
    : emulated_(options.devices.emulated()),
      pool_(pool == PoolRole::kCompute ? options.compute_pool() : options.update_pool()),
      index_(index),
      need_(emulated_ ? MemoryOf(options, pool, index).total() : 0),
      capacity_(DeviceCapacity(options, pool)),
      leak_(pool == PoolRole::kCompute ? options.devices.memory_leak_bytes : 0) {}

void MemoryUse::AtStep(uint64_t step) {
  if (!emulated_ || step == step_ || (step_ != UINT64_MAX && leak_ == 0)) return;
  const bool first = step_ == UINT64_MAX;
  step_ = step;
  const double grown = leak_ * static_cast<double>(step);
  if (first && capacity_ > 0) {
    poolscope_sample(poolscope_counter((pool_ + ".device_memory_capacity_bytes").c_str()),
                     capacity_);
  }
  poolscope_sample(poolscope_counter((pool_ + ".device_memory_bytes").c_str()), need_ + grown);
  if (capacity_ > 0 && need_ + grown > capacity_) {
    throw std::runtime_error(fmt::format(
        "{}/{} is out of device memory at step {}: {} of {}, of which {} have grown since "
        "the start",
        pool_, index_, step, Gigabytes(need_ + grown), Gigabytes(capacity_), Gigabytes(grown)));
  }
}

}  // namespace poolscope::trainer
