// A libcupti of our own, that plays a timeline. It behaves as NVIDIA's header says: buffers asked
// for when a record needs one and given back when full or flushed, callbacks at both ends of an
// API call, correlation ids, one subscriber, one clock.
//
// Lines, `key=value` in any order after the first word; times in us of CUPTI's clock, `at` before
// now, or absolute in ns as `start` and `end`:
//   version N                what cuptiGetVersion says; record sizes follow it
//   holder [NAME]            somebody else has the callbacks
//   own_clock S              takes no timestamp callback; its clock is CLOCK_MONOTONIC + S seconds
//   kernel_bytes N           kernels' records are as long as this
//   launch API correlation=1          the call's callbacks, a driver call within it
//   api correlation=1 tid=N           the same as a record
//   kernel NAME correlation=1 device=0 context=1 stream=7 at=100 for=50 ...
//   copy bytes=1 kind=1 from=1 to=3 ..., peer from_device=0 to_device=1 ..., memset bytes=1 ...
//   synchronize type=3 ..., overhead type=65536 tid=1 ..., context context=1 device=0
//   allocate [VARIABLE] bytes=1 address=1 memory=3 async=0 pool=0 ..., release address=1 ...
//   pool operation=1 pool=1 pool_bytes=1 ...
//   refuse KIND              asked for records of this kind, it says that there are none
//   other kind=99
//   freeze                   `at` is before this moment from here on
//   repeat N LINE            that often, correlation, address and times growing, within 40 ms
//   burst N                  so many records, and what launched each, as fast as can be
//   deliver                  gives back the buffer as it is
//   stall, resume            waits until a flush has begun, which takes until then
//   drop N                   so many records found no room
//   sampling, samples        see standin_cupti_sampling.cpp

#include "tests/support/standin_cupti.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kSuccess = 0, kInvalidParameter = 1, kMaxLimitReached = 12, kInvalidKind = 21,
              kMultipleSubscribers = 39;

using RequestFunction = void (*)(uint8_t**, size_t*, size_t*);
using CompleteFunction = void (*)(void*, uint32_t, uint8_t*, size_t, size_t);
using ApiFunction = void (*)(void*, uint32_t, uint32_t, const void*);

// The calls of each domain, by id; those that are no launches among them.
const std::vector<std::string> kDriverCalls = {"",
                                               "cuInit",
                                               "cuLaunchKernel",
                                               "cuMemcpyAsync",
                                               "cuMemsetD8Async",
                                               "cuGraphLaunch",
                                               "cuMemAlloc_v2",
                                               "cuMemFree_v2",
                                               "cuMemAllocAsync",
                                               "cuMemHostAlloc"};
const std::vector<std::string> kRuntimeCalls = {"",
                                                "cudaGetDevice_v3020",
                                                "cudaLaunchKernel_v7000",
                                                "cudaMemcpyAsync_v3020",
                                                "cudaMemsetAsync_v3020",
                                                "cudaGraphLaunch_v10000",
                                                "cudaMalloc_v3020",
                                                "cudaFree_v3020",
                                                "cudaMallocAsync_v11020",
                                                "cudaHostAlloc_v3020"};
// The driver call that a runtime call makes.
const std::map<std::string, std::string> kMadeBy = {
    {"cudaLaunchKernel_v7000", "cuLaunchKernel"},  {"cudaMemcpyAsync_v3020", "cuMemcpyAsync"},
    {"cudaMemsetAsync_v3020", "cuMemsetD8Async"},  {"cudaGraphLaunch_v10000", "cuGraphLaunch"},
    {"cudaMalloc_v3020", "cuMemAlloc_v2"},         {"cudaFree_v3020", "cuMemFree_v2"},
    {"cudaMallocAsync_v11020", "cuMemAllocAsync"}, {"cudaHostAlloc_v3020", "cuMemHostAlloc"}};

struct State {
  uint32_t version = 130001;
  std::string holder;
  bool held = false;
  bool own_clock = false;
  uint64_t frozen_at = 0;
  int64_t clock_offset_ns = 0;
  size_t kernel_bytes = 0;

  uint64_t (*timestamp)() = nullptr;
  RequestFunction request = nullptr;
  CompleteFunction complete = nullptr;
  ApiFunction callback = nullptr;
  void* user = nullptr;
  std::set<std::pair<uint32_t, uint32_t>> enabled_calls;
  std::set<uint32_t> kinds, refused;

  uint8_t* buffer = nullptr;
  size_t size = 0, used = 0;
  size_t dropped = 0;
  std::atomic<bool> stall{false}, stalled{false};
};
State state;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

uint64_t Now() {
  if (state.timestamp != nullptr) return state.timestamp();
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec * 1'000'000'000 + now.tv_nsec + state.clock_offset_ns);
}

void Deliver() {
  if (state.buffer == nullptr) return;
  uint8_t* buffer = state.buffer;
  const size_t size = state.size, used = state.used;
  state.buffer = nullptr;
  state.used = 0;
  state.complete(nullptr, 0, buffer, size, used);
}

void Emit(const std::vector<uint8_t>& record) {
  if (state.request == nullptr) return;
  if (state.buffer != nullptr && state.used + record.size() > state.size) Deliver();
  if (state.buffer == nullptr) {
    size_t most_records = 0;
    state.request(&state.buffer, &state.size, &most_records);
    if (state.buffer == nullptr) {
      ++state.dropped;
      return;
    }
    for (size_t i = 0; i < state.size; ++i) {
      if (state.buffer[i] == 0) continue;
      fprintf(stderr, "stand-in libcupti: a buffer that is not zeroed\n");
      _exit(3);
    }
  }
  memcpy(state.buffer + state.used, record.data(), record.size());
  state.used += record.size();
}

// Of API calls and memory CUPTI tells only who asks.
bool EmitRecord(const Line& line) {
  const auto record = StandinRecord(line, state.frozen_at != 0 ? state.frozen_at : Now());
  if (record.empty()) return false;
  uint32_t kind;
  memcpy(&kind, record.data(), sizeof(kind));
  const bool always = kind != 4 && kind != 5 && kind != 49 && kind != 50;
  if (always || state.kinds.count(kind) != 0) Emit(record);
  return true;
}

// One end of a call, if the subscriber wants it.
void CallBack(uint32_t domain, const std::string& name, int site, uint32_t correlation) {
  const auto& calls = domain == 1 ? kDriverCalls : kRuntimeCalls;
  uint32_t id = 0;
  while (id < calls.size() && calls[id] != name) ++id;
  if (state.callback == nullptr || state.enabled_calls.count({domain, id}) == 0) return;
  uint8_t data[72] = {};
  const char* text = name.c_str();
  memcpy(data, &site, 4);
  memcpy(data + 8, &text, 8);
  memcpy(data + 64, &correlation, 4);
  state.callback(state.user, domain, id, data);
}

bool LaunchCall(const Line& line) {
  const auto made = kMadeBy.find(line.name);
  if (made == kMadeBy.end()) return false;
  const uint32_t correlation = line.Number("correlation", 0);
  CallBack(2, made->first, 0, correlation);
  CallBack(1, made->second, 0, correlation);
  CallBack(1, made->second, 1, correlation);
  CallBack(2, made->first, 1, correlation);
  return true;
}

// Seven kernels, two copies and a memset in turn, of 20 names, each launched by a call before.
void Burst(uint32_t count) {
  static uint32_t correlation = 0;
  static std::vector<std::vector<uint8_t>> kernels;
  static const auto copy = StandinRecord(Line{"copy", "", {}}, 0),
                    set = StandinRecord(Line{"memset", "", {}}, 0);
  while (kernels.size() < 20) {
    Line line{"kernel", "", {}};
    line.name = "_ZN7cutlass6KernelI4gemmILi" + std::to_string(kernels.size()) +
                "ELi128ELi64EELb0ELb1EEEvPKfS3_PfiiiNT_6ParamsE";
    kernels.push_back(StandinRecord(line, 0));
  }
  pthread_mutex_lock(&mutex);
  for (uint32_t i = 0; i < count; ++i) {
    const auto& like = i % 10 < 7 ? kernels[i % 20] : i % 10 < 9 ? copy : set;
    std::vector<uint8_t> record = like;
    const uint64_t now = Now(), times[2] = {now, now + 90};
    ++correlation;
    memcpy(record.data() + 16, times, sizeof(times));
    memcpy(record.data() + (i % 10 < 7 ? 92 : 44), &correlation, 4);
    CallBack(1, "cuLaunchKernel", 0, correlation);
    Emit(record);
  }
  pthread_mutex_unlock(&mutex);
}

bool Do(const Line& line) {
  const std::string& word = line.word;
  if (word == "launch") return LaunchCall(line);  // callbacks hold no lock
  if (word == "burst") {
    Burst(static_cast<uint32_t>(strtoul(line.name.c_str(), nullptr, 10)));
    return true;
  }
  if (word == "stall" || word == "resume") {
    state.stall = word == "stall";
    while (state.stall && !state.stalled) usleep(1000);
    return true;
  }
  if (StandinSampling(word, line.name, line.Real("value", 0))) return true;
  pthread_mutex_lock(&mutex);
  bool known = true;
  if (word == "version") {
    state.version = static_cast<uint32_t>(strtoul(line.name.c_str(), nullptr, 10));
    StandinSizes(state.version, state.kernel_bytes);
  } else if (word == "holder") {
    state.held = true;
    state.holder = line.name;
  } else if (word == "own_clock") {
    state.own_clock = true;
    state.clock_offset_ns = strtoll(line.name.c_str(), nullptr, 10) * 1'000'000'000;
  } else if (word == "kernel_bytes") {
    state.kernel_bytes = strtoul(line.name.c_str(), nullptr, 10);
    StandinSizes(state.version, state.kernel_bytes);
  } else if (word == "refuse") {
    state.refused.insert(static_cast<uint32_t>(strtoul(line.name.c_str(), nullptr, 10)));
  } else if (word == "deliver") {
    Deliver();
  } else if (word == "freeze") {
    state.frozen_at = Now();
  } else if (word == "drop") {
    state.dropped += strtoul(line.name.c_str(), nullptr, 10);
  } else {
    known = EmitRecord(line);
  }
  pthread_mutex_unlock(&mutex);
  return known;
}

}  // namespace

uint64_t StandinNow() { return Now(); }

#define CUPTI_CALL extern "C" __attribute__((visibility("default")))

CUPTI_CALL bool standin_cupti_line(const char* text) {
  std::istringstream words(text);
  size_t times = 1;
  if (strncmp(text, "repeat ", 7) == 0) {
    std::string repeat;
    words >> repeat >> times;
  }
  Line line = Parse(words);
  const uint64_t correlation = line.Get("correlation", 0), address = line.Get("address", 0);
  const double step = std::min(20.0, 40'000.0 / static_cast<double>(times));
  const double at = line.Real("at", static_cast<double>(times) * step);
  for (size_t i = 0; i < times; ++i) {
    if (times > 1) {
      line.values["correlation"] = std::to_string(correlation + i);
      line.values["address"] = std::to_string(address + i * line.Get("bytes", 0));
      line.values["at"] = std::to_string(at - static_cast<double>(i) * step);
    }
    if (!Do(line)) {
      fprintf(stderr, "stand-in libcupti: no such line: %s\n", text);
      return false;
    }
  }
  return true;
}

CUPTI_CALL int cuptiGetVersion(uint32_t* version) {
  *version = state.version;
  return kSuccess;
}
CUPTI_CALL int cuptiGetTimestamp(uint64_t* timestamp) {
  *timestamp = Now();
  return kSuccess;
}
CUPTI_CALL int cuptiSetThreadIdType(uint32_t type) {
  return type == 1 ? kSuccess : kInvalidParameter;
}
CUPTI_CALL int cuptiActivitySetAttribute(int, size_t*, void*) { return kSuccess; }
CUPTI_CALL int cuptiActivityRegisterTimestampCallback(uint64_t (*now)()) {
  if (state.own_clock) return kInvalidParameter;
  state.timestamp = now;
  return kSuccess;
}
CUPTI_CALL int cuptiActivityRegisterCallbacks(RequestFunction request, CompleteFunction complete) {
  state.request = request;
  state.complete = complete;
  return kSuccess;
}
CUPTI_CALL int cuptiActivityEnable(uint32_t kind) {
  if (state.refused.count(kind) != 0) return kInvalidKind;
  state.kinds.insert(kind);
  return kSuccess;
}
CUPTI_CALL int cuptiActivityFlushAll(uint32_t) {
  while (state.stall) {
    state.stalled = true;
    usleep(1000);
  }
  pthread_mutex_lock(&mutex);
  Deliver();
  pthread_mutex_unlock(&mutex);
  return kSuccess;
}
CUPTI_CALL int cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* dropped) {
  pthread_mutex_lock(&mutex);
  *dropped = state.dropped;
  state.dropped = 0;
  pthread_mutex_unlock(&mutex);
  return kSuccess;
}
CUPTI_CALL int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, const uint8_t** record) {
  const uint8_t* next = buffer;
  if (*record != nullptr) {
    uint32_t kind;
    memcpy(&kind, *record, 4);
    next = *record + StandinBytesOf(kind);
  }
  if (next >= buffer + valid) return kMaxLimitReached;
  uint32_t kind;
  memcpy(&kind, next, 4);
  if (StandinBytesOf(kind) == 0) return kInvalidKind;
  *record = next;
  return kSuccess;
}
CUPTI_CALL int cuptiSubscribe(void** subscriber, ApiFunction callback, void* user) {
  if (state.held) return kMultipleSubscribers;
  state.callback = callback;
  state.user = user;
  *subscriber = &state;
  return kSuccess;
}
CUPTI_CALL int cuptiSubscribe_v2(void** subscriber, ApiFunction callback, void* user,
                                 void* parameters) {
  struct {
    size_t bytes;
    const char* name;
    char* holder;
    size_t holder_bytes;
  } given;
  memcpy(&given, parameters, sizeof(given));
  if (state.held && given.holder_bytes >= 64) {
    snprintf(given.holder, given.holder_bytes, "%s", state.holder.c_str());
  }
  return cuptiSubscribe(subscriber, callback, user);
}
CUPTI_CALL int cuptiEnableCallback(uint32_t enable, void* subscriber, uint32_t domain,
                                   uint32_t id) {
  if (subscriber != &state || enable != 1) return kInvalidParameter;
  state.enabled_calls.insert({domain, id});
  return kSuccess;
}
CUPTI_CALL int cuptiGetCallbackName(uint32_t domain, uint32_t id, const char** name) {
  const auto& calls = domain == 1 ? kDriverCalls : kRuntimeCalls;
  if (id == 0 || id >= calls.size()) return kInvalidParameter;
  *name = calls[id].c_str();
  return kSuccess;
}
