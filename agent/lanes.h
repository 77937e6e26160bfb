#pragma once

#include <cstdint>

#include "trace/session_format.h"

namespace poolscope::agent {

inline constexpr uint32_t kNoLane = ~0u;

// The number of the lane (kind, device, context, number), defined when new with `name` (string id).
// The same for the same for ever, in forked children too. kNoLane: there are too many. Takes locks:
// call it inside a Registering.
uint32_t LaneOf(const LaneDef& lane);

// For fork.
void LockLanes();
void UnlockLanes();
void ResetLanesLock();

}  // namespace poolscope::agent
