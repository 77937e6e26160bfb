#include "reference-trainer/timing.h"

#include <sys/prctl.h>
#include <time.h>

#include <cerrno>

namespace poolscope::trainer {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

int64_t Read(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

}  // namespace

int64_t NowNs() { return Read(CLOCK_MONOTONIC); }

uint64_t ThreadCpuNs() { return static_cast<uint64_t>(Read(CLOCK_THREAD_CPUTIME_ID)); }

void SleepUntilNs(int64_t deadline_ns) {
  timespec deadline{};
  deadline.tv_sec = deadline_ns / kNsPerSecond;
  deadline.tv_nsec = deadline_ns % kNsPerSecond;
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr) == EINTR) {
  }
}

void UseFineTimers() { prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); }

}  // namespace poolscope::trainer
