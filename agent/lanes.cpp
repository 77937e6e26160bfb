#include "agent/lanes.h"

#include <pthread.h>

#include "agent/process.h"
#include "trace/locked.h"

namespace poolscope::agent {
namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
LaneDef lanes[kMaxLanes];  // guarded by mutex, as is the count
uint32_t count = 0;

bool Same(const LaneDef& a, const LaneDef& b) {
  return a.kind == b.kind && a.device == b.device && a.context == b.context && a.number == b.number;
}

}  // namespace

uint32_t LaneOf(const LaneDef& lane) {
  const Locked lock(&mutex);
  uint32_t index = 0;
  while (index < count && !Same(lanes[index], lane)) ++index;
  if (index == kMaxLanes ||
      (index == count && !session.Define(DefinitionKind::kLane, index, &lane, sizeof(lane), 0))) {
    index = kNoLane;
  } else if (index == count) {
    lanes[count++] = lane;
  }
  return index;
}

void LockLanes() { pthread_mutex_lock(&mutex); }
void UnlockLanes() { pthread_mutex_unlock(&mutex); }
void ResetLanesLock() { pthread_mutex_init(&mutex, nullptr); }

}  // namespace poolscope::agent
