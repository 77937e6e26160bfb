#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "collector/session_clock.h"
#include "store/store.h"
#include "trace/result.h"
#include "trace/session_reader.h"

namespace poolscope {

// What is missing of one session: what its writers counted and what the collector did.
class SessionLosses {
 public:
  struct Span {
    int64_t begin_ns, end_ns;
  };
  struct Round {
    std::array<uint64_t, kLossCauses> lost{};  // newly
    std::vector<Span> unknown;                 // spans in which events of the session are missing
  };

  explicit SessionLosses(const SessionHead& head) : head_(head) {}

  // What an earlier collector counted.
  Status Load(const Store& store);
  // The collector's own loss of an event, of a cause that no session counts.
  void Count(LossCause cause, int64_t first_ns, int64_t last_ns);
  // Stores what grew since the last call.
  Status Take(Store& store, const SessionState& state, const SessionClock& clock, Round& round);
  // The session cannot be read any more: all since `last_ns` (0: not known) is lost.
  Status LoseTheRest(Store& store, int64_t last_ns, int64_t now_ns) const;

 private:
  struct Own {
    uint64_t events = 0;
    int64_t first_ns = 0, last_ns = 0;
    bool changed = false;
  };

  const SessionHead& head_;
  std::array<LossState, kLossCauses> taken_{};
  std::array<Own, kLossCauses> own_{};
  int64_t read_ns_ = 0;  // when they were last looked at
  int64_t off_ns_ = 0;   // when the agent was first seen switched off
};

}  // namespace poolscope
