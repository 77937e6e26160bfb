#include "collector/session_losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace poolscope {
namespace {

// Causes whose events are missing; the others keep the event and lose a part of it.
constexpr bool LosesEvents(LossCause cause) {
  return cause == LossCause::kRingFull || cause == LossCause::kOverwritten ||
         cause == LossCause::kNoRing || cause == LossCause::kOpenTableFull ||
         cause == LossCause::kUnknownCount || cause == LossCause::kDeviceDropped ||
         cause == LossCause::kDeviceTime || cause == LossCause::kDeviceUnknown;
}

// The others are counted by the session.
constexpr char kAgentOff[] = "agent_off";

constexpr bool CollectorCounts(LossCause cause) {
  return cause == LossCause::kUndecodable || cause == LossCause::kLate;
}

}  // namespace

Status SessionLosses::Load(const Store& store) {
  const auto losses = store.EventLosses(head_.run_id);
  if (!losses.ok()) return losses.error();
  for (const EventLossRow& row : *losses) {
    if (row.session_id != head_.session_id) continue;
    if (row.cause == kAgentOff) off_ns_ = row.first_ns;
    for (size_t i = 0; i < kLossCauses; ++i) {
      const auto cause = static_cast<LossCause>(i);
      if (!CollectorCounts(cause) || row.cause != LossCauseName(cause)) continue;
      own_[i] = {static_cast<uint64_t>(row.events.value_or(0)), row.first_ns, row.last_ns};
    }
  }
  return {};
}

void SessionLosses::Count(LossCause cause, int64_t first_ns, int64_t last_ns) {
  Own& own = own_[static_cast<size_t>(cause)];
  own.first_ns = own.events == 0 ? first_ns : std::min(own.first_ns, first_ns);
  own.last_ns = std::max(own.last_ns, last_ns);
  own.changed = true;
  ++own.events;
}

Status SessionLosses::Take(Store& store, const SessionState& state, const SessionClock& clock,
                           Round& round) {
  for (size_t i = 0; i < kLossCauses; ++i) {
    const auto cause = static_cast<LossCause>(i);
    EventLossRow row{head_.run_id, head_.session_id, LossCauseName(cause)};
    if (CollectorCounts(cause)) {
      Own& own = own_[i];
      if (!std::exchange(own.changed, false)) continue;
      round.lost[i] = own.events - std::exchange(taken_[i].events, own.events);
      row.place = "collector";
      row.events = static_cast<int64_t>(own.events);
      row.first_ns = own.first_ns;
      row.last_ns = own.last_ns;
    } else {
      const LossState& loss = state.losses[i];
      const LossState before = std::exchange(taken_[i], loss);
      if (loss.events == before.events) continue;
      // Counters only grow; a smaller one is a sabotaged one.
      round.lost[i] = loss.events > before.events ? loss.events - before.events : 0;
      row.place = "session";
      if (cause != LossCause::kUnknownCount) row.events = static_cast<int64_t>(loss.events);
      row.first_ns = clock.NsOrNow(loss.first_ticks);
      row.last_ns = clock.NsOrNow(loss.last_ticks);
      if (LosesEvents(cause)) {
        round.unknown.push_back(
            {clock.Recent(std::max(row.first_ns, read_ns_)), std::max(row.last_ns, read_ns_)});
      }
    }
    if (auto put = store.Put(row); !put.ok()) return put;
  }
  if (state.agent_off != AgentOff::kNo) {  // what comes after is missing, or some of it
    if (off_ns_ == 0) off_ns_ = clock.now_ns();
    EventLossRow row{head_.run_id, head_.session_id, kAgentOff};
    row.place = fmt::format("process {}: {}", head_.pid, AgentOffText(state.agent_off));
    row.first_ns = off_ns_;
    row.last_ns = clock.now_ns();
    if (auto put = store.Put(row); !put.ok()) return put;
  }
  read_ns_ = clock.now_ns();
  return {};
}

Status SessionLosses::LoseTheRest(Store& store, int64_t last_ns, int64_t now_ns) const {
  return store.Put(EventLossRow{head_.run_id,
                                head_.session_id,
                                LossCauseName(LossCause::kUnknownCount),
                                "collector",
                                {},
                                last_ns == 0 ? now_ns : last_ns,
                                now_ns});
}

}  // namespace poolscope
