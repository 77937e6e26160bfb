#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "store/rows.h"

namespace poolscope {

// A span in which a state holds. Spans may overlap in any way.
struct StateInterval {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  State state = State::kIdle;
  int link = -1;   // blocked_link and wait_link
  size_t tag = 0;  // the caller's; handed through
};

// A span in which a worker is in exactly one state.
struct StatePiece {
  static constexpr size_t kNoTag = ~size_t{0};
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  State state = State::kIdle;
  int link = -1;
  size_t tag = kNoTag;  // of the interval that decided; kNoTag: idle

  int64_t duration_ns() const { return end_ns - begin_ns; }
};

// Splits [begin_ns, end_ns) by the states' order of precedence (DESIGN, state split; the order of
// enum State): where several hold, the first wins; of several of one state, the one that began
// first (of several links, the one waited for longest). What no interval covers is idle. The pieces
// are in order and cover the span without gaps.
std::vector<StatePiece> SplitStates(std::span<const StateInterval> intervals, int64_t begin_ns,
                                    int64_t end_ns);

}  // namespace poolscope
