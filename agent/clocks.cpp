#include "agent/clocks.h"

#include <time.h>

#include "agent/process.h"
#include "agent/registry.h"

namespace poolscope::agent {
namespace {

constexpr uint32_t kMaxClocks = 256;
constexpr uint64_t kFirstDynamicId = NVTX_TIME_DOMAIN_ID_DYNAMIC_START;

// A line through one instant, in ns of CLOCK_MONOTONIC.
struct Clock {
  uint64_t id;
  uint32_t domain;
  bool tied;
  uint64_t type;       // NVTX_TIMESTAMP_TYPE_*
  double ns_per_tick;  // 0: not known yet
  int64_t tick;
  int64_t monotonic_ns;
};

// Guarded by the registry's lock.
Clock clocks[kMaxClocks];
uint32_t clock_count;

class Locked {
 public:
  Locked() { LockRegistry(); }
  ~Locked() { UnlockRegistry(); }
};

int64_t AheadOfMonotonic(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec - MonotonicNs();
}

bool Monotonic(int64_t ns, EventTime* time) {
  if (ns <= 0) return false;
  *time = {static_cast<uint64_t>(ns), true};
  return true;
}

bool TimeOfType(uint64_t type, int64_t given, EventTime* time) {
  switch (type) {
    case NVTX_TIMESTAMP_TYPE_CPU_TSC:
      if (session.clock() != ClockKind::kTsc) return false;
      [[fallthrough]];
    case NVTX_TIMESTAMP_TYPE_NONE:
    case NVTX_TIMESTAMP_TYPE_TOOL_PROVIDED:
      *time = {static_cast<uint64_t>(given), false};
      return given > 0;
    case NVTX_TIMESTAMP_TYPE_CPU_CLOCK_GETTIME_MONOTONIC:
    case NVTX_TIMESTAMP_TYPE_CPU_CLOCK_GETTIME_MONOTONIC_COARSE:
    case NVTX_TIMESTAMP_TYPE_CPP_STEADY_CLOCK:
      return Monotonic(given, time);
    case NVTX_TIMESTAMP_TYPE_CPU_CLOCK_GETTIME_REALTIME:
    case NVTX_TIMESTAMP_TYPE_CPU_CLOCK_GETTIME_REALTIME_COARSE:
    case NVTX_TIMESTAMP_TYPE_CPP_SYSTEM_CLOCK:
    case NVTX_TIMESTAMP_TYPE_CPP_HIGH_RESOLUTION_CLOCK:  // libstdc++'s is the system's
      return Monotonic(given - AheadOfMonotonic(CLOCK_REALTIME), time);
    case NVTX_TIMESTAMP_TYPE_CPU_CLOCK_GETTIME_MONOTONIC_RAW:
      return Monotonic(given - AheadOfMonotonic(CLOCK_MONOTONIC_RAW), time);
    case NVTX_TIMESTAMP_TYPE_CPU_CLOCK_GETTIME_BOOTTIME:
      return Monotonic(given - AheadOfMonotonic(CLOCK_BOOTTIME), time);
    default:
      return false;
  }
}

Clock* Find(uint32_t domain, uint64_t id) {
  for (uint32_t i = 0; i < clock_count; ++i) {
    if (clocks[i].id == id && (clocks[i].domain == domain || id >= kFirstDynamicId)) {
      return &clocks[i];
    }
  }
  return nullptr;
}

// Ids under the static ones are types; other ids may be used before they are registered.
Clock* FindOrAdd(uint32_t domain, uint64_t id) {
  Clock* clock = Find(domain, id);
  if (clock != nullptr || clock_count == kMaxClocks) return clock;
  clock = &clocks[clock_count++];
  *clock = {.id = id,
            .domain = domain,
            .tied = false,
            .type = id,
            .ns_per_tick = 0,
            .tick = 0,
            .monotonic_ns = 0};
  return clock;
}

bool TimeOfKnown(uint32_t domain, uint64_t id, int64_t given, EventTime* time) {
  const Clock* clock = Find(domain, id);
  if (clock == nullptr) return TimeOfType(id, given, time);
  if (clock->tied && clock->ns_per_tick > 0) {
    const double since = static_cast<double>(given - clock->tick) * clock->ns_per_tick;
    return Monotonic(clock->monotonic_ns + static_cast<int64_t>(since), time);
  }
  return clock->type != NVTX_TIMESTAMP_TYPE_NONE && TimeOfType(clock->type, given, time);
}

bool MonotonicOf(uint32_t domain, uint64_t id, int64_t given, int64_t* ns) {
  EventTime time;
  if (!TimeOfKnown(domain, id, given, &time)) return false;
  if (time.monotonic) {
    *ns = static_cast<int64_t>(time.at);
    return true;
  }
  const ClockTriple now = TakeTriple(session.clock());
  const auto ago = static_cast<double>(static_cast<int64_t>(now.ticks - time.at));
  *ns = now.monotonic_ns -
        static_cast<int64_t>(ago * 1e9 / static_cast<double>(session.ticks_per_second()));
  return true;
}

void Tie(Clock* clock, int64_t tick, int64_t monotonic_ns) {
  if (clock->tied && clock->ns_per_tick == 0 && tick != clock->tick) {
    const double rate = static_cast<double>(monotonic_ns - clock->monotonic_ns) /
                        static_cast<double>(tick - clock->tick);
    if (rate > 0) clock->ns_per_tick = rate;
  }
  clock->tied = true;
  clock->tick = tick;
  clock->monotonic_ns = monotonic_ns;
}

}  // namespace

bool TimeOf(uint32_t domain, uint64_t clock, int64_t given, EventTime* time) {
  const Locked lock;
  return TimeOfKnown(domain, clock, given, time);
}

uint64_t RegisterClock(uint32_t domain, const nvtxTimeDomainAttr_t& attributes) {
  const Locked lock;
  const uint64_t id = attributes.timeDomainId != NVTX_TIME_DOMAIN_ID_NONE
                          ? attributes.timeDomainId
                          : kFirstDynamicId + clock_count;
  Clock* clock = FindOrAdd(domain, id);
  if (clock == nullptr) return NVTX_TIME_DOMAIN_ID_NONE;
  clock->type = attributes.timestampTypeId;
  if (attributes.timerResolution > 0) {
    clock->ns_per_tick = 1e9 / static_cast<double>(attributes.timerResolution);
    const clockid_t since =
        attributes.timerStart == NVTX_TIMER_START_UNIX_EPOCH ? CLOCK_REALTIME : CLOCK_BOOTTIME;
    if (attributes.timerStart == NVTX_TIMER_START_UNIX_EPOCH ||
        attributes.timerStart == NVTX_TIMER_START_SYSTEM_BOOT) {
      Tie(clock, 0, -AheadOfMonotonic(since));
    }
  }
  return id;
}

void TieClocks(uint32_t domain, uint64_t a, uint64_t b, int64_t a_time, int64_t b_time) {
  const Locked lock;
  int64_t ns;
  if (MonotonicOf(domain, b, b_time, &ns)) {
    if (Clock* clock = FindOrAdd(domain, a)) Tie(clock, a_time, ns);
  } else if (MonotonicOf(domain, a, a_time, &ns)) {
    if (Clock* clock = FindOrAdd(domain, b)) Tie(clock, b_time, ns);
  }
}

void ScaleClock(uint32_t domain, uint64_t clock, uint64_t known, double slope, int64_t time,
                int64_t known_time) {
  const Locked lock;
  int64_t start, end;
  constexpr int64_t kSpan = 1'000'000'000;  // ticks, to tell the known clock's rate
  if (!(slope > 0) || !MonotonicOf(domain, known, known_time, &start) ||
      !MonotonicOf(domain, known, known_time + kSpan, &end)) {
    return;
  }
  Clock* scaled = FindOrAdd(domain, clock);
  if (scaled == nullptr) return;
  scaled->ns_per_tick = slope * static_cast<double>(end - start) / kSpan;
  Tie(scaled, time, start);
}

void SetClock(uint32_t domain, uint64_t clock, int64_t time) {
  const Locked lock;
  if (Clock* set = FindOrAdd(domain, clock)) Tie(set, time, MonotonicNs());
}

uint64_t ClockOf(const nvtxSemanticsHeader_t* semantics) {
  for (int i = 0; semantics != nullptr && i < 16; ++i, semantics = semantics->next) {
    if (semantics->semanticId == NVTX_SEMANTIC_ID_TIME_V1 &&
        semantics->structSize >= sizeof(nvtxSemanticsTime_t)) {
      return reinterpret_cast<const nvtxSemanticsTime_t*>(semantics)->timeDomainId;
    }
  }
  return 0;
}

}  // namespace poolscope::agent
