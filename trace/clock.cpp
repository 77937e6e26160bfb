#include "trace/clock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace poolscope {
namespace {

bool KernelTrustsTsc() {
  const int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                      O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[32] = {};
  const ssize_t got = read(fd, text, sizeof(text) - 1);
  close(fd);
  return got >= 3 && strncmp(text, "tsc", 3) == 0 && (text[3] == '\n' || text[3] == '\0');
}

bool TscIsInvariant() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1u << 8)) != 0;
#else
  return false;
#endif
}

int64_t RealtimeNs() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

ClockKind TrustedClock() {
  const char* forced = getenv("POOLSCOPE_CLOCK");
  if (forced != nullptr && strcmp(forced, "monotonic") == 0) return ClockKind::kMonotonic;
  return TscIsInvariant() && KernelTrustsTsc() ? ClockKind::kTsc : ClockKind::kMonotonic;
}

ClockTriple TakeTriple(ClockKind kind) {
  ClockTriple best = {};
  uint64_t best_width = ~uint64_t{0};
  for (int attempt = 0; attempt < 5; ++attempt) {
    const uint64_t before = ReadTicks(kind);
    const int64_t monotonic = MonotonicNs();
    const uint64_t middle = ReadTicks(kind);
    const int64_t realtime = RealtimeNs();
    const uint64_t after = ReadTicks(kind);
    if (after - before >= best_width) continue;
    best_width = after - before;
    best = {before + (middle - before) / 2, monotonic, realtime};
    if (kind == ClockKind::kMonotonic) best.ticks = static_cast<uint64_t>(monotonic);
  }
  return best;
}

}  // namespace poolscope
