#pragma once

#include <signal.h>
#include <sys/types.h>

#include "trace/result.h"

namespace poolscope {

// Tells a signal that was sent to this process alone from one that was sent to its whole process
// group (`timeout`, `kill -- -PGID`): a job in the same group already has the latter, and a second
// SIGINT makes many programs give up at once. A witness process in the group, which does nothing
// else, counts the signals that reach it.
class GroupSignals {
 public:
  GroupSignals() = default;
  GroupSignals(const GroupSignals&) = delete;
  GroupSignals& operator=(const GroupSignals&) = delete;
  ~GroupSignals();  // ends the witness

  // From a process of one thread, with `signals` blocked.
  Status Start(const sigset_t& signals);
  // Whether `number`, which just came in, went to the group. Waits for 20 ms to know, and takes up
  // what comes in of the same signal meanwhile. False where there is no witness.
  bool HasGroup(int number);

 private:
  pid_t witness_ = -1;
  struct Counts;
  Counts* counts_ = nullptr;  // shared with the witness
  int known_[65] = {};
};

}  // namespace poolscope
