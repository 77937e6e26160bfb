// What devices do, as CUPTI reports it: its buffers and callbacks, and our own thread that asks
// for what is complete and writes it into the session.

#include "agent/cupti_source.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "agent/cuda_device.h"
#include "agent/cupti_buffers.h"
#include "agent/cupti_decode.h"
#include "agent/cupti_launches.h"
#include "agent/cupti_library.h"
#include "agent/cupti_sampling.h"
#include "agent/process.h"
#include "agent/text.h"

namespace poolscope::agent::cupti {
namespace {

constexpr uint64_t kMsNs = 1'000'000;
constexpr uint64_t kDefaultFlushMs = 100, kLongestMs = 10'000;
constexpr uint64_t kFinishMs = 2000;  // that the end of the job is delayed by at most
constexpr uint32_t kMostCallbacks = 2048;
constexpr uint32_t kMostSampledDevices = 16;

// Set by Start, before any thread or callback.
Library library;
Buffers buffers;
Launches launches;
Decoder decoder;
DeviceClock device_clock;
uint64_t flush_ns = kDefaultFlushMs * kMsNs;
uint64_t sampling_ns = 0;  // 0: devices are not sampled
bool null_buffers = false;
bool late_launches = false;
char note[256];  // how it records, as a mark says at the beginning

std::atomic<bool> recording{false};
std::atomic<bool> forked{false};    // this process is a forked child: locks may be held for ever
std::atomic<uint64_t> given_up{0};  // records, for want of buffers

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;  // CLOCK_MONOTONIC, set by Start
// Guarded by mutex.
bool buffer_came = false, finishing = false, finished = false;

uint64_t NowNs() { return static_cast<uint64_t>(MonotonicNs()); }

timespec At(uint64_t ns) {
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

// --- Called by CUPTI ---

void Request(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *most_records = 0;  // as many as fit
  *bytes = 0;
  *buffer = nullptr;
  if (forked.load(std::memory_order_relaxed)) return;
  *bytes = kCuptiBufferBytes;
  *buffer = buffers.Give();
  if (*buffer != nullptr) return;
  if (!null_buffers) {
    // Older versions crash without a buffer: the one that was filled first is given up for it.
    size_t valid_bytes = 0;
    if (uint8_t* filled = buffers.Take(&valid_bytes); filled != nullptr) {
      given_up.fetch_add(decoder.Count(filled, valid_bytes), std::memory_order_relaxed);
      memset(filled, 0, kCuptiBufferBytes);
      *buffer = filled;
      return;
    }
  }
  *bytes = 0;
}

void Complete(void*, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  if (forked.load(std::memory_order_relaxed) || !buffers.Fill(buffer, valid_bytes)) return;
  pthread_mutex_lock(&mutex);
  buffer_came = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

void OnApi(void*, uint32_t, uint32_t, const void* argument) {
  const auto* data = static_cast<const CallbackData*>(argument);
  if (data->site != kApiEnter || !recording.load(std::memory_order_relaxed)) return;
  launches.Remember(data->correlation, LaunchNow());
}

// --- Our thread ---

// Looks at both clocks. Where CUPTI has a clock of its own, it may have been set since.
void ReadClocks() {
  if (device_clock.foreign) {
    const uint64_t before = NowNs();
    uint64_t theirs = 0;
    if (library.get_timestamp(&theirs) == kSuccess) {
      const auto offset = static_cast<int64_t>(before + (NowNs() - before) / 2 - theirs);
      const int64_t moved = offset - device_clock.offsets_ns[0];
      if (moved > int64_t{kMsNs} || moved < -int64_t{kMsNs}) {
        device_clock.offsets_ns[1] = device_clock.offsets_ns[0];
      }
      device_clock.offsets_ns[0] = offset;
    }
  }
  device_clock.now_ns = NowNs();
}

// Since the flush before, at those ticks.
void CountDropped(uint64_t since_ticks) {
  size_t dropped = 0;
  if (library.dropped_records(nullptr, 0, &dropped) != kSuccess) dropped = 0;
  dropped += given_up.exchange(0, std::memory_order_relaxed);
  if (dropped == 0) return;
  const Inside inside(false);  // starts the session if need be
  if (!inside) return;
  const uint64_t now = inside->now();
  session.Lose(LossCause::kDeviceDropped, dropped, since_ticks != 0 ? since_ticks : now, now);
}

// Of the devices that something has happened on.
void SampleDevices(ThreadWriter& writer) {
  static struct {
    enum { kUntried, kSampled, kRefused } state;
    DeviceSampling sampling;
  } devices[kMostSampledDevices];
  for (uint32_t i = 0; i < kMostSampledDevices; ++i) {
    auto& device = devices[i];
    if ((decoder.devices() >> i & 1) == 0 || device.state == device.kRefused) continue;
    Reason why;
    if (device.state == device.kUntried) {
      device.state =
          device.sampling.Start(library, i, sampling_ns, &why) ? device.kSampled : device.kRefused;
    } else if (!device.sampling.Read(writer, device_clock, &why)) {
      device.state = device.kRefused;
    }
    if (device.state != device.kRefused) continue;
    char text[640];
    snprintf(text, sizeof(text), "device %u is not sampled: %s", i, why.text);
    writer.Mark(RecordDomain(), NameOf(writer, text), 0, {});
    Say("CUPTI", text);
  }
}

// Records all buffers that have come. A round reads who launched what from all of them first.
void Drain(bool flushed, bool all) {
  uint8_t* round[kMaxCuptiBuffers];
  size_t valid_bytes[kMaxCuptiBuffers];
  uint32_t count = 0;
  while (count < kMaxCuptiBuffers) {
    round[count] = buffers.Take(&valid_bytes[count]);
    if (round[count] == nullptr) break;
    ++count;
  }
  if (count == 0 && !decoder.waits() && (sampling_ns == 0 || decoder.devices() == 0)) return;
  const Inside inside(false);
  if (inside) {
    static bool noted = false;
    if (!noted && count != 0) {
      noted = true;
      inside->Mark(RecordDomain(), NameOf(*inside, note), 0, {});
    }
    ReadClocks();
    for (uint32_t i = 0; late_launches && i < count; ++i) {
      decoder.ReadLaunches(round[i], valid_bytes[i], device_clock);
    }
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (inside) decoder.Decode(*inside, round[i], valid_bytes[i], device_clock);
    buffers.PutBack(round[i]);
  }
  if (!inside) return;
  static uint64_t described = 0;
  for (uint64_t fresh = decoder.devices() & ~described; fresh != 0; fresh &= fresh - 1) {
    DescribeDevice(*inside, static_cast<uint32_t>(std::countr_zero(fresh)));
  }
  described = decoder.devices();
  if (!flushed) return;
  decoder.FinishRound(*inside, device_clock, all);
  if (sampling_ns != 0) SampleDevices(*inside);
}

// Waits until a buffer has come, `until`, or the end. Gives whether the end has come.
bool Wait(uint64_t until_ns) {
  const timespec until = At(until_ns);
  pthread_mutex_lock(&mutex);
  while (!buffer_came && !finishing) {
    if (pthread_cond_timedwait(&changed, &mutex, &until) != 0) break;
  }
  buffer_came = false;
  const bool end = finishing;
  pthread_mutex_unlock(&mutex);
  return end;
}

void* Run(void*) {
  uint64_t flushed_ns = NowNs();
  uint64_t flushed_ticks = 0;  // 0: there was no session
  for (bool end = false; !end;) {
    end = Wait(flushed_ns + flush_ns);
    const bool flush = end || NowNs() >= flushed_ns + flush_ns;
    if (flush) {
      library.flush_all(end ? kFlushForced : 0);
      flushed_ns = NowNs();
    }
    Drain(flush, end);
    if (flush) {
      CountDropped(flushed_ticks);
      flushed_ticks = session.started() ? ReadTicks(session.clock()) : 0;
    }
  }
  pthread_mutex_lock(&mutex);
  finished = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  return nullptr;
}

// The process exits: what CUPTI still holds is recorded, unless that takes too long.
void Finish() {
  if (!recording.exchange(false)) return;
  const timespec until = At(NowNs() + kFinishMs * kMsNs);
  pthread_mutex_lock(&mutex);
  finishing = true;
  pthread_cond_broadcast(&changed);
  while (!finished) {
    if (pthread_cond_timedwait(&changed, &mutex, &until) != 0) break;
  }
  pthread_mutex_unlock(&mutex);
}

// --- Start ---

bool StartsWith(const char* text, const char* beginning) {
  return strncmp(text, beginning, strlen(beginning)) == 0;
}

// Of the calls that make a device do something, or take or give back its memory, by name: their
// numbers differ between versions.
void EnableLaunchCallbacks(void* subscriber) {
  constexpr const char* kRuntime[] = {"cudaLaunch",    "cudaGraphLaunch", "cudaMemcpy",
                                      "cudaMemset",    "cudaMalloc",      "cudaFree",
                                      "cudaHostAlloc", "cudaMemPool"};
  constexpr const char* kDriver[] = {"cuLaunch",   "cuGraphLaunch", "cuMemcpy",       "cuMemset",
                                     "cuMemAlloc", "cuMemFree",     "cuMemHostAlloc", "cuMemPool"};
  for (const uint32_t domain : {kDriverApi, kRuntimeApi}) {
    for (uint32_t id = 1; id < kMostCallbacks; ++id) {
      const char* name = nullptr;
      if (library.callback_name(domain, id, &name) != kSuccess || name == nullptr) continue;
      for (const char* beginning : domain == kDriverApi ? kDriver : kRuntime) {
        if (StartsWith(name, beginning)) library.enable_callback(1, subscriber, domain, id);
      }
    }
  }
}

// False: somebody else holds the callbacks, `holder` says who.
bool Subscribe(char (&holder)[128]) {
  void* subscriber = nullptr;
  int result = 0;
  if (library.subscribe_named != nullptr) {
    SubscriberParameters parameters = {sizeof(parameters), "poolscope", holder, sizeof(holder)};
    result = library.subscribe_named(&subscriber, OnApi, nullptr, &parameters);
    holder[sizeof(holder) - 1] = '\0';
  } else {
    result = library.subscribe(&subscriber, OnApi, nullptr);
  }
  if (result == kSuccess) {
    EnableLaunchCallbacks(subscriber);
    return true;
  }
  if (result != kMultipleSubscribers) {
    snprintf(holder, sizeof(holder), "error %d of cuptiSubscribe", result);
  } else if (holder[0] == '\0') {
    snprintf(holder, sizeof(holder), "another tool");
  }
  return false;
}

// Milliseconds from the environment; what is no number from 1 to 10000 is said, and none.
uint64_t ReadMs(const char* variable, uint64_t otherwise) {
  const char* text = getenv(variable);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const unsigned long ms = strtoul(text, &end, 10);
  if (end != text && *end == '\0' && ms != 0 && ms <= kLongestMs) return ms;
  char what[128];
  snprintf(what, sizeof(what), "%s is no number from 1 to %lu, %lu is taken", variable, kLongestMs,
           otherwise);
  Say(what, text);
  return otherwise;
}

bool StartThread(Reason* why) {
  pthread_condattr_t condition;
  pthread_condattr_init(&condition);
  pthread_condattr_setclock(&condition, CLOCK_MONOTONIC);
  pthread_cond_init(&changed, &condition);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int error = pthread_create(&thread, nullptr, Run, nullptr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    why->Set("no thread to be had (error %d)", error);
    return false;
  }
  pthread_setname_np(thread, "poolscope-cupti");
  pthread_detach(thread);
  return true;
}

bool Begin(Reason* why) {
  if (!LoadLibrary(&library, why)) return false;
  uint32_t version = 0;
  library.get_version(&version);
  null_buffers = version >= kNullBufferVersion;
  char holder[128] = "";
  late_launches = !Subscribe(holder);
  if (!buffers.Init() || !launches.Init() || !decoder.Init(&library, &launches, late_launches)) {
    why->Set("no memory for its buffers");
    return false;
  }
  device_clock.foreign =
      library.register_timestamp == nullptr || library.register_timestamp(NowNs) != kSuccess;
  device_clock.from_ns = NowNs();
  ReadClocks();
  device_clock.offsets_ns[1] = device_clock.offsets_ns[0];
  uint8_t zeroed = 1;
  size_t bytes = sizeof(zeroed);
  library.set_attribute(kZeroedOutBuffer, &bytes, &zeroed);
  library.set_thread_id_type(kThreadIdOfSystem);
  if (const int result = library.register_callbacks(Request, Complete); result != kSuccess) {
    why->Set("cuptiActivityRegisterCallbacks gave error %d", result);
    return false;
  }
  if (const int result = library.enable(Kind::kConcurrentKernel); result != kSuccess) {
    why->Set("cuptiActivityEnable gave error %d for kernels", result);
    return false;
  }
  for (const Kind kind : {Kind::kContext, Kind::kMemcpy, Kind::kMemcpyPeer, Kind::kMemset,
                          Kind::kSynchronization, Kind::kOverhead}) {
    library.enable(kind);
  }
  const bool no_memory = library.enable(Kind::kMemory) != kSuccess;
  library.enable(Kind::kMemoryPool);
  if (late_launches) {
    library.enable(Kind::kRuntime);
    library.enable(Kind::kDriver);
    snprintf(note, sizeof(note), "CUPTI %u%s without callbacks, which are held by %s", version,
             no_memory ? " without memory," : "", holder);
  } else {
    snprintf(note, sizeof(note), "CUPTI %u%s", version, no_memory ? " without memory" : "");
  }
  if (late_launches || no_memory) Say("CUPTI", note);
  recording.store(true, std::memory_order_relaxed);
  if (StartThread(why)) return true;
  recording.store(false, std::memory_order_relaxed);
  return false;
}

}  // namespace

void Start() {
  static std::atomic<bool> started{false};
  if (started.exchange(true)) return;
  Registering registering;
  if (!registering) return;
  flush_ns = ReadMs("POOLSCOPE_CUPTI_FLUSH_MS", kDefaultFlushMs) * kMsNs;
  sampling_ns = ReadMs("POOLSCOPE_PM_SAMPLING_MS", 0) * kMsNs;
  DefineRecords();
  Reason why;
  if (!Begin(&why)) return Say("no device activity", why.text);
  atexit(Finish);
  at_quick_exit(Finish);
}

void ForgetInChild() { forked.store(recording.exchange(false), std::memory_order_relaxed); }

}  // namespace poolscope::agent::cupti
