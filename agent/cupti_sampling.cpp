#include "agent/cupti_sampling.h"

#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>

#include <bit>
#include <iterator>
#include <utility>

#include "agent/cupti_sampling_layout.h"
#include "agent/text.h"

namespace poolscope::agent::cupti {
namespace {

constexpr uint32_t kMostSamples = 1024;  // of a round; what does not fit comes with the next
constexpr size_t kHardwareBytes = size_t{16} << 20;
constexpr size_t kMostConfigBytes = size_t{1} << 20;
constexpr size_t kMostDataBytes = size_t{64} << 20;

// In order of importance: where a device cannot sample all in one pass, the last ones are left out.
constexpr struct {
  const char* name;  // CUPTI's
  const char* counter;
  double scale;
} kMetrics[] = {
    {"sm__cycles_active.avg.pct_of_peak_sustained_elapsed", "sm_active", 0.01},
    {"dram__throughput.avg.pct_of_peak_sustained_elapsed", "dram_active", 0.01},
    {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", "tensor_active", 0.01},
    {"nvlrx__bytes.sum.per_second", "nvlink_receive_bytes_per_second", 1},
    {"nvltx__bytes.sum.per_second", "nvlink_send_bytes_per_second", 1},
    {"pcie__read_bytes.sum.per_second", "pcie_read_bytes_per_second", 1},
    {"pcie__write_bytes.sum.per_second", "pcie_write_bytes_per_second", 1},
};
static_assert(std::size(kMetrics) <= DeviceSampling::kMostMetrics);

enum Function {
  kProfilerInitialize,
  kChipName,
  kHostInitialize,
  kHostDeinitialize,
  kHostAddMetrics,
  kHostConfigSize,
  kHostConfig,
  kHostPasses,
  kHostEvaluate,
  kAvailability,
  kEnable,
  kSetConfig,
  kDataSize,
  kDataInitialize,
  kStart,
  kDecode,
  kDataInfo,
  kSample,
  kFunctions
};
constexpr const char* kNames[kFunctions] = {"cuptiProfilerInitialize",
                                            "cuptiDeviceGetChipName",
                                            "cuptiProfilerHostInitialize",
                                            "cuptiProfilerHostDeinitialize",
                                            "cuptiProfilerHostConfigAddMetrics",
                                            "cuptiProfilerHostGetConfigImageSize",
                                            "cuptiProfilerHostGetConfigImage",
                                            "cuptiProfilerHostGetNumOfPasses",
                                            "cuptiProfilerHostEvaluateToGpuValues",
                                            "cuptiPmSamplingGetCounterAvailability",
                                            "cuptiPmSamplingEnable",
                                            "cuptiPmSamplingSetConfig",
                                            "cuptiPmSamplingGetCounterDataSize",
                                            "cuptiPmSamplingCounterDataImageInitialize",
                                            "cuptiPmSamplingStart",
                                            "cuptiPmSamplingDecodeData",
                                            "cuptiPmSamplingGetCounterDataInfo",
                                            "cuptiPmSamplingCounterDataGetSampleInfo"};

// Set by the first Start.
int (*functions[kFunctions])(void* parameters);

// The result of a function whose parameters end with `last`.
template <typename T, typename Last>
int Call(Function function, T* parameters, const Last& last) {
  parameters->bytes = static_cast<size_t>(reinterpret_cast<const char*>(&last + 1) -
                                          reinterpret_cast<const char*>(parameters));
  return functions[function](parameters);
}

bool Failed(Reason* why, Function function, int result) {
  if (result == kSuccess) return false;
  why->Set("%s gave error %d", kNames[function], result);
  return true;
}

uint8_t* MapBytes(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<uint8_t*>(memory);
}

bool Load(const Library& library, Reason* why) {
  for (uint32_t i = 0; i < kFunctions; ++i) {
    functions[i] = reinterpret_cast<int (*)(void*)>(dlsym(library.handle, kNames[i]));
    if (functions[i] != nullptr) continue;
    why->Set("this libcupti has no %s", kNames[i]);
    return false;
  }
  Parameters none;
  return !Failed(why, kProfilerInitialize, Call(kProfilerInitialize, &none, none.priv));
}

}  // namespace

bool DeviceSampling::Start(const Library& library, uint32_t device, uint64_t interval_ns,
                           Reason* why) {
  if (functions[kFunctions - 1] == nullptr && !Load(library, why)) return false;
  ChipName chip;
  chip.device = device;
  if (Failed(why, kChipName, Call(kChipName, &chip, chip.chip))) return false;
  SamplingEnable enable;
  enable.device = device;
  if (Failed(why, kEnable, Call(kEnable, &enable, enable.object))) return false;
  object_ = enable.object;

  Availability availability;
  availability.device = device;
  if (Failed(why, kAvailability, Call(kAvailability, &availability, availability.image))) {
    return false;
  }
  availability_ = MapBytes(availability.image_bytes);
  config_ = MapBytes(kMostConfigBytes);
  availability.image = availability_;
  if (availability_ == nullptr || config_ == nullptr) {
    why->Set("no memory for its images");
    return false;
  }
  if (Failed(why, kAvailability, Call(kAvailability, &availability, availability.image)) ||
      !Choose(chip.chip, device, why)) {
    return false;
  }

  SamplingConfig config;
  config.object = object_;
  config.config_bytes = config_bytes_;
  config.config = config_;
  config.hardware_bytes = kHardwareBytes;
  config.interval = interval_ns;
  int result = Call(kSetConfig, &config, config.append);
  if (result != kSuccess) {  // chips that have no timer count cycles of a clock of about 1 GHz
    config.trigger = kEverySystemClocks;
    result = Call(kSetConfig, &config, config.append);
  }
  if (Failed(why, kSetConfig, result)) return false;

  SamplingDataSize size;
  size.object = object_;
  size.names = names_;
  size.count = count_;
  size.most_samples = kMostSamples;
  if (Failed(why, kDataSize, Call(kDataSize, &size, size.data_bytes))) return false;
  data_bytes_ = size.data_bytes;
  if (data_bytes_ > kMostDataBytes || (data_ = MapBytes(data_bytes_)) == nullptr) {
    why->Set("no memory for %zu bytes of samples", data_bytes_);
    return false;
  }
  SamplingDataInitialize data;
  data.object = object_;
  data.data_bytes = data_bytes_;
  data.data = data_;
  if (Failed(why, kDataInitialize, Call(kDataInitialize, &data, data.data))) return false;
  SamplingObject start;
  start.object = object_;
  return !Failed(why, kStart, Call(kStart, &start, start.object));
}

// Takes one metric after the other, as long as a pass can hold them.
bool DeviceSampling::Choose(const char* chip, uint32_t device, Reason* why) {
  for (const auto& metric : kMetrics) {
    HostInitialize initialize;
    initialize.chip = chip;
    initialize.availability = availability_;
    if (Failed(why, kHostInitialize, Call(kHostInitialize, &initialize, initialize.host))) {
      return false;
    }
    names_[count_] = metric.name;
    HostAddMetrics add;
    add.host = initialize.host;
    add.names = names_;
    add.count = count_ + 1;
    HostDeinitialize other;
    other.host = initialize.host;
    if (Call(kHostAddMetrics, &add, add.count) == kSuccess && MakeConfig(initialize.host)) {
      std::swap(host_, other.host);
      counters_[count_] = DefineCounter(device, metric.counter);
      scales_[count_] = metric.scale;
      ++count_;
    }
    if (other.host != nullptr) Call(kHostDeinitialize, &other, other.host);
  }
  if (count_ != 0 && MakeConfig(host_)) return true;  // again: one that did not fit came after
  why->Set("%s samples none of the metrics in one pass", chip);
  return false;
}

// Sets config_ to what samples the host's metrics. False: one pass cannot.
bool DeviceSampling::MakeConfig(void* host) {
  HostConfigSize size;
  size.host = host;
  if (Call(kHostConfigSize, &size, size.config_bytes) != kSuccess) return false;
  config_bytes_ = size.config_bytes;
  if (config_bytes_ > kMostConfigBytes) return false;
  HostConfig config;
  config.host = host;
  config.config_bytes = config_bytes_;
  config.config = config_;
  if (Call(kHostConfig, &config, config.config) != kSuccess) return false;
  HostPasses passes;
  passes.config_bytes = config_bytes_;
  passes.config = config_;
  return Call(kHostPasses, &passes, passes.passes) == kSuccess && passes.passes == 1;
}

bool DeviceSampling::Read(ThreadWriter& writer, const DeviceClock& clock, Reason* why) {
  SamplingDecode decode;
  decode.object = object_;
  decode.data = data_;
  decode.data_bytes = data_bytes_;
  if (Failed(why, kDecode, Call(kDecode, &decode, decode.overflow))) return false;
  if (decode.overflow != 0) writer.Lose(LossCause::kDeviceDropped);
  SamplingDataInfo info;
  info.data = data_;
  info.data_bytes = data_bytes_;
  if (Failed(why, kDataInfo, Call(kDataInfo, &info, info.completed))) return false;
  for (size_t i = 0; i < info.completed; ++i) {
    SamplingSample sample;
    sample.object = object_;
    sample.data = data_;
    sample.data_bytes = data_bytes_;
    sample.sample = i;
    if (Failed(why, kSample, Call(kSample, &sample, sample.end))) return false;
    double values[kMostMetrics];
    HostEvaluate evaluate;
    evaluate.host = host_;
    evaluate.data = data_;
    evaluate.data_bytes = data_bytes_;
    evaluate.sample = i;
    evaluate.names = names_;
    evaluate.count = count_;
    evaluate.values = values;
    if (Failed(why, kHostEvaluate, Call(kHostEvaluate, &evaluate, evaluate.values))) return false;
    if (!Place(clock, 0, &sample.start, &sample.end)) {
      writer.Lose(LossCause::kDeviceTime);
      continue;
    }
    for (uint32_t metric = 0; metric < count_; ++metric) {
      EventPayload payload;
      payload.flags = kRecordFloat;
      payload.value = std::bit_cast<uint64_t>(values[metric] * scales_[metric]);
      WriteCounter(writer, counters_[metric], sample.end, payload);
    }
  }
  SamplingDataInitialize data;  // empties it
  data.object = object_;
  data.data_bytes = data_bytes_;
  data.data = data_;
  return !Failed(why, kDataInitialize, Call(kDataInitialize, &data, data.data));
}

}  // namespace poolscope::agent::cupti
