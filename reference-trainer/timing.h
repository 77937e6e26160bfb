#pragma once

#include <cstdint>

namespace poolscope::trainer {

// CLOCK_MONOTONIC in nanoseconds.
int64_t NowNs();

// CPU time of the calling thread in nanoseconds.
uint64_t ThreadCpuNs();

// Sleeps to an instant of NowNs(); returns at once where that has passed.
void SleepUntilNs(int64_t deadline_ns);

// Sets the calling thread's timer slack to 1 µs (the kernel's default is 50 µs). Threads that it
// starts later inherit it.
void UseFineTimers();

}  // namespace poolscope::trainer
