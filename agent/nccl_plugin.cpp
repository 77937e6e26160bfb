// NCCL's profiler plugin, API v1 to v7, found by NCCL in the library that NCCL_PROFILER_PLUGIN
// names.
//
// NCCL takes the newest version that it knows. Nothing here ever fails: an error would make NCCL
// unload the plugin and count its users wrongly.

#include <stdlib.h>
#include <string.h>

#include "agent/nccl_operations.h"
#include "agent/process.h"

namespace poolscope::agent::nccl {
namespace {

using Result = int;  // ncclResult_t
constexpr Result kSuccess = 0;
using Log = void (*)(int level, unsigned long flags, const char* file, int line, const char* format,
                     ...);

// POOLSCOPE_NCCL_EVENTS: "none"; "calls": enqueueing alone, which costs least; "proxies": network
// operations too; "kernels" (the default): the channels of the kernels too.
int WantedEvents() {
  const char* text = getenv("POOLSCOPE_NCCL_EVENTS");
  const auto is = [&](const char* word) { return text != nullptr && strcmp(text, word) == 0; };
  if (is("none")) return 0;
  int events = kGroup | kColl | kP2p | kCeColl;
  if (is("calls")) return events;
  events |= kProxyOp;
  return is("proxies") ? events : events | kKernelCh;
}

int Events(int version) {
  if (!InitProcess()) return 0;
  int known = kGroup | kColl | kP2p | kProxyOp;
  if (version >= 3) known |= kKernelCh;
  if (version >= 6) known |= kCeColl;
  const int events = WantedEvents() & known;
  Expect((events & kKernelCh) != 0, (events & kProxyOp) != 0);
  return events;
}

template <int version>
Result Init(void** context, int* mask) {
  *mask = Events(version);
  *context = *mask != 0 ? OpenNamelessCommunicator() : nullptr;
  return kSuccess;
}

Result InitV4(void** context, int* mask, const char* name, uint64_t hash, int, int ranks, int rank,
              Log) {
  *mask = Events(4);
  *context = *mask != 0 ? OpenCommunicator(name, hash, rank, ranks) : nullptr;
  return kSuccess;
}

template <int version>
Result InitV5(void** context, uint64_t hash, int* mask, const char* name, int, int ranks, int rank,
              Log) {
  *mask = Events(version);
  *context = *mask != 0 ? OpenCommunicator(name, hash, rank, ranks) : nullptr;
  return kSuccess;
}

template <int version>
Result StartEvent(void* context, void** handle, const void* descriptor) {
  *handle = Start(static_cast<Communicator*>(context), Read(version, descriptor));
  return kSuccess;
}

Result StopEvent(void* handle) {
  Stop(handle);
  return kSuccess;
}

// Before v4 a stop brings no time.
Result RecordNothing(void*, int, const void*) { return kSuccess; }
Result RecordState(void* handle, int state, const void* arguments) {
  if (state == kKernelChStop && arguments != nullptr) {
    StopChannel(handle, *static_cast<const uint64_t*>(arguments));
  }
  return kSuccess;
}

Result Finalize(void* context) {
  CloseCommunicator(static_cast<Communicator*>(context));
  return kSuccess;
}

template <typename InitFunction>
struct Plugin {
  const char* name;
  InitFunction init;
  Result (*start_event)(void* context, void** handle, const void* descriptor);
  Result (*stop_event)(void* handle);
  Result (*record_event_state)(void* handle, int state, const void* arguments);
  Result (*finalize)(void* context);
};
template <typename InitFunction>
Plugin(const char*, InitFunction, Result (*)(void*, void**, const void*), Result (*)(void*),
       Result (*)(void*, int, const void*), Result (*)(void*)) -> Plugin<InitFunction>;

template <int version, auto init>
constexpr auto MakePlugin() {
  return Plugin{
      "poolscope", init, StartEvent<version>, StopEvent, version < 4 ? RecordNothing : RecordState,
      Finalize};
}

}  // namespace

#define POOLSCOPE_NCCL_PLUGIN(version, init)                                             \
  extern "C" __attribute__((visibility("default"))) const auto ncclProfiler_v##version = \
      MakePlugin<version, init>();

POOLSCOPE_NCCL_PLUGIN(1, Init<1>)
POOLSCOPE_NCCL_PLUGIN(2, Init<2>)
POOLSCOPE_NCCL_PLUGIN(3, Init<3>)
POOLSCOPE_NCCL_PLUGIN(4, InitV4)
POOLSCOPE_NCCL_PLUGIN(5, InitV5<5>)
POOLSCOPE_NCCL_PLUGIN(6, InitV5<6>)
POOLSCOPE_NCCL_PLUGIN(7, InitV5<7>)

}  // namespace poolscope::agent::nccl
