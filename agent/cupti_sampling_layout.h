#pragma once

#include <cstddef>
#include <cstdint>

// Parameters of CUPTI's PM sampling, from CUDA 12.8 on. Our own declarations, which tests compare
// with NVIDIA's headers where they are there. Each function takes one of these, whose first word
// says how long it is, up to its last member.

namespace poolscope::agent::cupti {

struct Parameters {
  size_t bytes = 0;
  void* priv = nullptr;
};

struct ChipName : Parameters {
  size_t device = 0;
  const char* chip = nullptr;  // out
};

inline constexpr int kPmSampling = 1;  // CUPTI_PROFILER_TYPE_PM_SAMPLING

struct HostInitialize : Parameters {
  int type = kPmSampling;
  const char* chip = nullptr;
  const uint8_t* availability = nullptr;
  void* host = nullptr;  // out
};

struct HostDeinitialize : Parameters {
  void* host = nullptr;
};

struct HostAddMetrics : Parameters {
  void* host = nullptr;
  const char** names = nullptr;
  size_t count = 0;
};

struct HostConfigSize : Parameters {
  void* host = nullptr;
  size_t config_bytes = 0;  // out
};

struct HostConfig : Parameters {
  void* host = nullptr;
  size_t config_bytes = 0;
  uint8_t* config = nullptr;
};

struct HostPasses : Parameters {
  size_t config_bytes = 0;
  uint8_t* config = nullptr;
  size_t passes = 0;  // out
};

struct HostEvaluate : Parameters {
  void* host = nullptr;
  const uint8_t* data = nullptr;
  size_t data_bytes = 0;
  size_t sample = 0;
  const char** names = nullptr;
  size_t count = 0;
  double* values = nullptr;
};

struct Availability : Parameters {
  size_t device = 0;
  size_t image_bytes = 0;  // out, where there is no image
  uint8_t* image = nullptr;
};

struct SamplingEnable : Parameters {
  size_t device = 0;
  void* object = nullptr;  // out
};

struct SamplingObject : Parameters {  // to start it
  void* object = nullptr;
};

inline constexpr int kEverySystemClocks = 0, kEveryNanoseconds = 1;  // ..._TriggerMode
inline constexpr int kKeepOldest = 0;                                // ..._AppendMode

struct SamplingConfig : Parameters {
  void* object = nullptr;
  size_t config_bytes = 0;
  const uint8_t* config = nullptr;
  size_t hardware_bytes = 0;
  uint64_t interval = 0;
  int trigger = kEveryNanoseconds;
  int append = kKeepOldest;
};

struct SamplingDataSize : Parameters {
  void* object = nullptr;
  const char** names = nullptr;
  size_t count = 0;
  uint32_t most_samples = 0;
  size_t data_bytes = 0;  // out
};

struct SamplingDataInitialize : Parameters {
  void* object = nullptr;
  size_t data_bytes = 0;
  uint8_t* data = nullptr;
};

struct SamplingDecode : Parameters {
  void* object = nullptr;
  uint8_t* data = nullptr;
  size_t data_bytes = 0;
  int stop_reason = 0;   // out
  uint8_t overflow = 0;  // out
};

struct SamplingDataInfo : Parameters {
  const uint8_t* data = nullptr;
  size_t data_bytes = 0;
  size_t total = 0, populated = 0, completed = 0;  // out
};

struct SamplingSample : Parameters {
  void* object = nullptr;
  const uint8_t* data = nullptr;
  size_t data_bytes = 0;
  size_t sample = 0;
  uint64_t start = 0, end = 0;  // out
};

}  // namespace poolscope::agent::cupti
