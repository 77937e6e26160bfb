// A libcupti of our own, that plays a timeline. It behaves as NVIDIA's header says: buffers asked
// for when a record needs one and given back when full or flushed, callbacks at both ends of an
// API call, correlation ids, one subscriber, one clock. Where each field of a record lies was
// computed with offsetof from NVIDIA's headers, not from the agent's.
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
//   other kind=99
//   freeze                   `at` is before this moment from here on
//   repeat N LINE            that often, correlation and times growing, within 40 ms
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
#include <deque>
#include <initializer_list>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/standin_cupti_line.h"

namespace {

constexpr int kSuccess = 0, kInvalidParameter = 1, kMaxLimitReached = 12, kInvalidKind = 21,
              kMultipleSubscribers = 39;

using RequestFunction = void (*)(uint8_t**, size_t*, size_t*);
using CompleteFunction = void (*)(void*, uint32_t, uint8_t*, size_t, size_t);
using ApiFunction = void (*)(void*, uint32_t, uint32_t, const void*);

// The calls of each domain, by id; those that are no launches among them.
const std::vector<std::string> kDriverCalls = {
    "", "cuInit", "cuLaunchKernel", "cuMemcpyAsync", "cuMemsetD8Async", "cuGraphLaunch"};
const std::vector<std::string> kRuntimeCalls = {"",
                                                "cudaGetDevice_v3020",
                                                "cudaLaunchKernel_v7000",
                                                "cudaMemcpyAsync_v3020",
                                                "cudaMemsetAsync_v3020",
                                                "cudaGraphLaunch_v10000"};
// The driver call that a runtime call makes.
const std::map<std::string, std::string> kMadeBy = {{"cudaLaunchKernel_v7000", "cuLaunchKernel"},
                                                    {"cudaMemcpyAsync_v3020", "cuMemcpyAsync"},
                                                    {"cudaMemsetAsync_v3020", "cuMemsetD8Async"},
                                                    {"cudaGraphLaunch_v10000", "cuGraphLaunch"}};

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
  std::set<uint32_t> kinds;

  uint8_t* buffer = nullptr;
  size_t size = 0, used = 0;
  size_t dropped = 0;
  std::atomic<bool> stall{false}, stalled{false};
  std::deque<std::string> names;  // of kernels, for ever
};
State state;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

uint64_t Now() {
  if (state.timestamp != nullptr) return state.timestamp();
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec * 1'000'000'000 + now.tv_nsec + state.clock_offset_ns);
}

// By kind; 0: no record of this kind is known.
size_t record_bytes[100];

void SetSizes() {
  const auto newest = [](std::initializer_list<std::pair<uint32_t, size_t>> sizes) {
    size_t bytes = 0;
    for (const auto& [since, size] : sizes) bytes = state.version >= since ? size : bytes;
    return bytes + (state.version > 139999 ? 64 : 0);  // of a version to come
  };
  record_bytes[1] = newest({{0, 88}, {26, 96}, {130500, 112}});
  record_bytes[2] = newest({{0, 88}, {130500, 104}});
  record_bytes[4] = record_bytes[5] = 40;
  record_bytes[9] = newest({{0, 16}, {22, 24}, {23, 32}, {130500, 40}});
  record_bytes[3] = record_bytes[10] =
      state.kernel_bytes != 0 ? state.kernel_bytes
                              : newest({{0, 200}, {19, 208}, {130000, 216}, {130500, 248}});
  record_bytes[17] = newest({{0, 40}, {21, 48}, {22, 56}});
  record_bytes[22] = newest({{0, 96}});
  record_bytes[38] = newest({{0, 40}, {26, 56}});
  record_bytes[99] = 64;
}
[[gnu::constructor]] void SetFirstSizes() { SetSizes(); }

size_t BytesOf(uint32_t kind) { return kind < 100 ? record_bytes[kind] : 0; }

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

class Bytes {
 public:
  Bytes(uint32_t kind, const Line& line) : bytes_(BytesOf(kind)) {
    Put(0, kind);
    const uint64_t now = state.frozen_at != 0 ? state.frozen_at : Now();
    start_ = line.Get("start", now - static_cast<uint64_t>(line.Real("at", 100) * 1000));
    end_ = line.Get("end", start_ + static_cast<uint64_t>(line.Real("for", 10) * 1000));
  }
  template <typename T>
  Bytes& Put(size_t offset, T value) {
    if (offset + sizeof(T) <= bytes_.size()) memcpy(bytes_.data() + offset, &value, sizeof(T));
    return *this;
  }
  Bytes& Times(size_t offset) { return Put(offset, start_).Put(offset + 8, end_); }
  const std::vector<uint8_t>& all() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
  uint64_t start_, end_;
};

uint32_t U32(const Line& line, const char* key, uint32_t otherwise) {
  return static_cast<uint32_t>(line.Get(key, otherwise));
}

void PutPlace(Bytes& bytes, const Line& line, size_t at) {
  bytes.Put(at, U32(line, "device", 0))
      .Put(at + 4, U32(line, "context", 1))
      .Put(at + 8, U32(line, "stream", 7));
}

std::vector<uint8_t> Kernel(const Line& line) {
  state.names.push_back(line.name);
  Bytes bytes(U32(line, "kind", 10), line);
  PutPlace(bytes.Times(16), line, 40);
  bytes.Put(6, static_cast<uint16_t>(line.Get("registers", 32)));
  for (size_t i = 0; i < 6; ++i) bytes.Put(52 + 4 * i, int32_t{1});
  bytes.Put(52, U32(line, "grid_x", 1)).Put(60, U32(line, "grid_z", 1));
  bytes.Put(64, U32(line, "block_x", 1)).Put(68, U32(line, "block_y", 1));
  bytes.Put(76, U32(line, "static_shared", 0)).Put(80, U32(line, "dynamic_shared", 0));
  bytes.Put(92, U32(line, "correlation", 0));
  bytes.Put(104, line.values.count("unnamed") != 0 ? nullptr : state.names.back().c_str());
  bytes.Put(144, line.Get("graph_node", 0)).Put(156, U32(line, "graph", 0));
  return bytes.all();
}

std::vector<uint8_t> Copy(const Line& line) {
  Bytes bytes(1, line);
  PutPlace(bytes.Times(16), line, 32);
  bytes.Put(4, static_cast<uint8_t>(line.Get("kind", 1)))
      .Put(5, static_cast<uint8_t>(line.Get("from", 1)))
      .Put(6, static_cast<uint8_t>(line.Get("to", 3)));
  bytes.Put(8, line.Get("bytes", 0)).Put(44, U32(line, "correlation", 0));
  return bytes.all();
}

void Peer(const Line& line) {
  Bytes bytes(22, line);
  PutPlace(bytes.Times(16), line, 32);
  bytes.Put(4, uint8_t{10}).Put(5, uint8_t{3}).Put(6, uint8_t{3}).Put(8, line.Get("bytes", 0));
  bytes.Put(44, U32(line, "from_device", 0)).Put(52, U32(line, "to_device", 1));
  bytes.Put(60, U32(line, "correlation", 0));
  Emit(bytes.all());
}

std::vector<uint8_t> Memset(const Line& line) {
  Bytes bytes(2, line);
  PutPlace(bytes.Times(16), line, 32);
  bytes.Put(8, line.Get("bytes", 0)).Put(44, U32(line, "correlation", 0));
  return bytes.all();
}

void Synchronize(const Line& line) {
  Bytes bytes(38, line);
  bytes.Times(8).Put(4, U32(line, "type", 3)).Put(24, U32(line, "correlation", 0));
  bytes.Put(28, U32(line, "context", 1)).Put(32, U32(line, "stream", 7));
  Emit(bytes.all());
}

void Overhead(const Line& line) {
  Bytes bytes(17, line);
  bytes.Times(24).Put(4, U32(line, "type", 0)).Put(8, uint32_t{2});
  bytes.Put(16, U32(line, "tid", 0));
  if (BytesOf(17) >= 56) bytes.Put(48, malloc(24));  // the details, which the agent frees
  Emit(bytes.all());
}

void Api(const Line& line) {
  const uint32_t kind = U32(line, "kind", 5);
  if (state.kinds.count(kind) == 0) return;
  Bytes bytes(kind, line);
  bytes.Times(8).Put(24, static_cast<uint32_t>(getpid()));
  bytes.Put(28, U32(line, "tid", static_cast<uint32_t>(syscall(SYS_gettid))));
  bytes.Put(32, U32(line, "correlation", 0));
  Emit(bytes.all());
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
  const uint32_t correlation = U32(line, "correlation", 0);
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
  static const auto copy = Copy(Line()), set = Memset(Line());
  while (kernels.size() < 20) {
    Line line;
    line.name = "_ZN7cutlass6KernelI4gemmILi" + std::to_string(kernels.size()) +
                "ELi128ELi64EELb0ELb1EEEvPKfS3_PfiiiNT_6ParamsE";
    kernels.push_back(Kernel(line));
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
    SetSizes();
  } else if (word == "holder") {
    state.held = true;
    state.holder = line.name;
  } else if (word == "own_clock") {
    state.own_clock = true;
    state.clock_offset_ns = strtoll(line.name.c_str(), nullptr, 10) * 1'000'000'000;
  } else if (word == "kernel_bytes") {
    state.kernel_bytes = strtoul(line.name.c_str(), nullptr, 10);
    SetSizes();
  } else if (word == "kernel") {
    Emit(Kernel(line));
  } else if (word == "copy") {
    Emit(Copy(line));
  } else if (word == "peer") {
    Peer(line);
  } else if (word == "memset") {
    Emit(Memset(line));
  } else if (word == "synchronize") {
    Synchronize(line);
  } else if (word == "overhead") {
    Overhead(line);
  } else if (word == "api") {
    Api(line);
  } else if (word == "context") {
    Emit(Bytes(9, line).Put(4, U32(line, "context", 1)).Put(8, U32(line, "device", 0)).all());
  } else if (word == "other") {
    Emit(Bytes(U32(line, "kind", 99), line).all());
  } else if (word == "deliver") {
    Deliver();
  } else if (word == "freeze") {
    state.frozen_at = Now();
  } else if (word == "drop") {
    state.dropped += strtoul(line.name.c_str(), nullptr, 10);
  } else {
    known = false;
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
  const uint64_t correlation = line.Get("correlation", 0);
  const double step = std::min(20.0, 40'000.0 / static_cast<double>(times));
  const double at = line.Real("at", static_cast<double>(times) * step);
  for (size_t i = 0; i < times; ++i) {
    if (times > 1) {
      line.values["correlation"] = std::to_string(correlation + i);
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
    next = *record + BytesOf(kind);
  }
  if (next >= buffer + valid) return kMaxLimitReached;
  uint32_t kind;
  memcpy(&kind, next, 4);
  if (BytesOf(kind) == 0) return kInvalidKind;
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
