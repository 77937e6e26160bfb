#pragma once

#include <cstdint>

#include "agent/nvtx.h"

// The clocks that jobs give times in: NVTX's time domains. A clock is a predefined
// NVTX_TIMESTAMP_TYPE_* or one that the job registered and tied to another. All calls are made
// inside, with the session started; those that register take the registry's lock.

namespace poolscope::agent {

struct EventTime {
  uint64_t at;     // ticks of the session, or
  bool monotonic;  // ns of CLOCK_MONOTONIC
};

// False: the clock, or its distance to a known one, is not known. Clock 0 is the session's own,
// which nvtxTimestampGet gives.
bool TimeOf(uint32_t domain, uint64_t clock, int64_t given, EventTime* time);

uint64_t RegisterClock(uint32_t domain, const nvtxTimeDomainAttr_t& attributes);  // 0: too many

// At the same instant clock `a` showed `a_time` and clock `b` `b_time`. The second such pair gives
// the rate of a clock that has none.
void TieClocks(uint32_t domain, uint64_t a, uint64_t b, int64_t a_time, int64_t b_time);

// One tick of `clock` is `slope` ticks of `known`, and both showed these times at one instant.
void ScaleClock(uint32_t domain, uint64_t clock, uint64_t known, double slope, int64_t time,
                int64_t known_time);

// It shows this now.
void SetClock(uint32_t domain, uint64_t clock, int64_t time);

// The clock that semantics name, 0: none.
uint64_t ClockOf(const nvtxSemanticsHeader_t* semantics);

}  // namespace poolscope::agent
