// The stand-in libcupti's PM sampling: see standin_cupti.cpp. Parameters are read where NVIDIA's
// headers have them. Lines:
//   sampling CHIP   what sampling runs on: GH100 samples all in one pass, AD102 three metrics and
//   no
//                   NVLink, GA100 has no timer; "refused": one may not
//   await_sampling      waits until it has begun
//   samples N value=V   N samples a millisecond apart, up to now; the k-th metric is V + k

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/standin_cupti.h"

namespace {

constexpr int kSuccess = 0, kInvalidParameter = 1, kInsufficientPrivileges = 35;

struct Sample {
  uint64_t start, end;
  double value;
};

struct Host {
  std::vector<std::string> metrics;
};

std::string chip = "GH100";
std::atomic<bool> started{false};
std::string configured;
std::vector<Sample> pending, decoded;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // guards what both the job and the agent use

class Locked {
 public:
  Locked() { pthread_mutex_lock(&mutex); }
  ~Locked() { pthread_mutex_unlock(&mutex); }
};

template <typename T>
T& At(void* parameters, size_t offset) {
  return *reinterpret_cast<T*>(static_cast<char*>(parameters) + offset);
}

// Whether the caller says that the parameters are as long as they must be.
bool Complete(void* parameters, size_t bytes) { return At<size_t>(parameters, 0) >= bytes; }

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return text;
}

std::vector<std::string> Names(void* parameters, size_t offset) {
  const char** names = At<const char**>(parameters, offset);
  return {names, names + At<size_t>(parameters, offset + 8)};
}

}  // namespace

bool StandinSampling(const std::string& word, const std::string& name, double value) {
  if (word == "sampling") {
    chip = name;
    return true;
  }
  if (word == "await_sampling") {
    for (int i = 0; i < 20'000 && !started; ++i) usleep(1000);
    return started;
  }
  if (word != "samples") return false;
  const Locked lock;
  const size_t count = std::stoul(name);
  const uint64_t now = StandinNow();
  for (size_t i = 0; started && i < count; ++i) {
    const uint64_t end = now - (count - 1 - i) * 1'000'000;
    pending.push_back({end - 1'000'000, end, value});
  }
  return true;
}

#define CUPTI_CALL extern "C" __attribute__((visibility("default"))) int
#define EXPECT_COMPLETE(bytes) \
  if (!Complete(p, bytes)) return kInvalidParameter

CUPTI_CALL cuptiProfilerInitialize(void* p) {
  EXPECT_COMPLETE(16);
  return kSuccess;
}
CUPTI_CALL cuptiDeviceGetChipName(void* p) {
  EXPECT_COMPLETE(32);
  At<const char*>(p, 24) = chip.c_str();
  return kSuccess;
}
CUPTI_CALL cuptiProfilerHostInitialize(void* p) {
  EXPECT_COMPLETE(48);
  if (At<int>(p, 16) != 1 || At<const char*>(p, 24) != chip) return kInvalidParameter;
  At<Host*>(p, 40) = new Host;
  return kSuccess;
}
CUPTI_CALL cuptiProfilerHostDeinitialize(void* p) {
  EXPECT_COMPLETE(24);
  delete At<Host*>(p, 16);
  return kSuccess;
}
CUPTI_CALL cuptiProfilerHostConfigAddMetrics(void* p) {
  EXPECT_COMPLETE(40);
  for (const std::string& name : Names(p, 24)) {
    if (chip == "AD102" && name.starts_with("nvl")) return kInvalidParameter;
    At<Host*>(p, 16)->metrics.push_back(name);
  }
  return kSuccess;
}
CUPTI_CALL cuptiProfilerHostGetConfigImageSize(void* p) {
  EXPECT_COMPLETE(32);
  At<size_t>(p, 24) = Joined(At<Host*>(p, 16)->metrics).size();
  return kSuccess;
}
CUPTI_CALL cuptiProfilerHostGetConfigImage(void* p) {
  EXPECT_COMPLETE(40);
  const std::string text = Joined(At<Host*>(p, 16)->metrics);
  if (At<size_t>(p, 24) != text.size()) return kInvalidParameter;
  memcpy(At<char*>(p, 32), text.data(), text.size());
  return kSuccess;
}
CUPTI_CALL cuptiProfilerHostGetNumOfPasses(void* p) {
  EXPECT_COMPLETE(40);
  const std::string text(At<char*>(p, 24), At<size_t>(p, 16));
  const size_t metrics = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  At<size_t>(p, 32) = chip == "AD102" && metrics > 3 ? 2 : 1;
  return kSuccess;
}
CUPTI_CALL cuptiProfilerHostEvaluateToGpuValues(void* p) {
  EXPECT_COMPLETE(72);
  const auto names = Names(p, 48);
  if (Joined(names) != Joined(At<Host*>(p, 16)->metrics)) return kInvalidParameter;
  const size_t sample = At<size_t>(p, 40);
  if (sample >= decoded.size()) return kInvalidParameter;
  for (size_t i = 0; i < names.size(); ++i) {
    At<double*>(p, 64)[i] = decoded[sample].value + static_cast<double>(i);
  }
  return kSuccess;
}
CUPTI_CALL cuptiPmSamplingGetCounterAvailability(void* p) {
  EXPECT_COMPLETE(40);
  if (At<uint8_t*>(p, 32) == nullptr) At<size_t>(p, 24) = 128;
  return kSuccess;
}
CUPTI_CALL cuptiPmSamplingEnable(void* p) {
  EXPECT_COMPLETE(32);
  if (chip == "refused") return kInsufficientPrivileges;
  At<void*>(p, 24) = &chip;
  return kSuccess;
}
CUPTI_CALL cuptiPmSamplingSetConfig(void* p) {
  EXPECT_COMPLETE(64);
  if (At<void*>(p, 16) != &chip || At<uint64_t>(p, 48) == 0) return kInvalidParameter;
  if (chip == "GA100" && At<int>(p, 56) == 1) return kInvalidParameter;
  configured.assign(At<char*>(p, 32), At<size_t>(p, 24));
  return kSuccess;
}
CUPTI_CALL cuptiPmSamplingGetCounterDataSize(void* p) {
  EXPECT_COMPLETE(56);
  if (Joined(Names(p, 24)) != configured) return kInvalidParameter;
  At<size_t>(p, 48) = 4096;
  return kSuccess;
}
CUPTI_CALL cuptiPmSamplingCounterDataImageInitialize(void* p) {
  EXPECT_COMPLETE(40);
  decoded.clear();
  return kSuccess;
}
CUPTI_CALL cuptiPmSamplingStart(void* p) {
  EXPECT_COMPLETE(24);
  const Locked lock;
  started = true;
  return kSuccess;
}
CUPTI_CALL cuptiPmSamplingDecodeData(void* p) {
  EXPECT_COMPLETE(45);
  const Locked lock;
  decoded.insert(decoded.end(), pending.begin(), pending.end());
  pending.clear();
  At<uint8_t>(p, 44) = 0;
  return kSuccess;
}
CUPTI_CALL cuptiPmSamplingGetCounterDataInfo(void* p) {
  EXPECT_COMPLETE(56);
  At<size_t>(p, 48) = decoded.size();
  return kSuccess;
}
CUPTI_CALL cuptiPmSamplingCounterDataGetSampleInfo(void* p) {
  EXPECT_COMPLETE(64);
  const size_t sample = At<size_t>(p, 40);
  if (sample >= decoded.size()) return kInvalidParameter;
  At<uint64_t>(p, 48) = decoded[sample].start;
  At<uint64_t>(p, 56) = decoded[sample].end;
  return kSuccess;
}
