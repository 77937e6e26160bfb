// Where a session's rings are read up to: in the store, and in shared memory.

#include <algorithm>
#include <utility>

#include "collector/session_drain.h"

namespace poolscope {
namespace {

// Beside the cursor of slot i stand, under these numbers, the ids of the newest range that its
// thread ended: a range killed between its end record and its removal from the table of open ones
// is then known to be counted.
constexpr int64_t OpenIdKey(int64_t slot) { return -1 - slot; }
constexpr int64_t ProcessRangeKey(int64_t slot) { return -1 - int64_t{kMaxThreads} - slot; }

}  // namespace

Status SessionDrain::LoadCursors(const Store& store) {
  const auto cursors = store.Cursors(head().session_id);
  if (!cursors.ok()) return cursors.error();
  for (const CursorRow& row : *cursors) {
    if (row.slot >= 0 && row.slot < int64_t{kMaxThreads}) {
      Slot& slot = slots_[static_cast<size_t>(row.slot)];
      slot.known = true;
      slot.incarnation = static_cast<uint32_t>(row.incarnation);
      slot.position = static_cast<uint64_t>(row.read_position);
    } else if (row.slot < 0 && row.slot >= OpenIdKey(kMaxThreads - 1)) {
      slots_[static_cast<size_t>(-1 - row.slot)].last_open =
          static_cast<uint64_t>(row.read_position);
    } else if (row.slot < 0 && row.slot >= ProcessRangeKey(kMaxThreads - 1)) {
      slots_[static_cast<size_t>(-1 - int64_t{kMaxThreads} - row.slot)].last_range =
          static_cast<uint64_t>(row.read_position);
    }
  }
  return losses_.Load(store);
}

Status SessionDrain::SaveCursors(Store& store) {
  for (uint32_t i = 0; i < kMaxThreads; ++i) {
    Slot& slot = slots_[i];
    if (!std::exchange(slot.changed, false)) continue;
    const auto put = [&](int64_t key, uint64_t value) {
      return store.Put(
          CursorRow{head().session_id, key, slot.incarnation, static_cast<int64_t>(value)});
    };
    if (auto done = put(i, slot.position); !done.ok()) return done;
    if (slot.last_open != 0) {
      if (auto done = put(OpenIdKey(i), slot.last_open); !done.ok()) return done;
    }
    if (slot.last_range != 0) {
      if (auto done = put(ProcessRangeKey(i), slot.last_range); !done.ok()) return done;
    }
  }
  return {};
}

Status SessionDrain::Release() {
  for (uint32_t i = 0; i < kMaxThreads; ++i) {
    Slot& slot = slots_[i];
    if (!slot.known || slot.raised == slot.position) continue;
    const auto view = reader_.Slot(i);
    // Not for a slot that was taken again since: its thread has positions of its own.
    if (!view.ok() || view->incarnation != slot.incarnation) continue;
    if (slot.position <= view->write_position && slot.position > view->read_position) {
      if (auto set = reader_.SetReadPosition(i, slot.position); !set.ok()) return set;
    }
    slot.raised = slot.position;
  }
  return {};
}

double SessionDrain::Fill() const {
  const auto state = reader_.State();
  if (!state.ok()) return 0;
  double fill = 0;
  uint32_t exited = 0;  // threads whose slots wait for this collector
  for (uint32_t i = 0; i < state->slots_used; ++i) {
    const auto view = reader_.Slot(i);
    if (!view.ok() || view->ring_bytes == 0) continue;
    const uint64_t from = std::max({view->first_position, view->read_position, slots_[i].raised});
    if (view->write_position <= from) continue;
    if (view->state == SlotState::kThreadExited) ++exited;
    fill = std::max(fill, static_cast<double>(view->write_position - from) /
                              static_cast<double>(view->ring_bytes));
  }
  return std::max(fill, static_cast<double>(exited) / kMaxThreads);
}

}  // namespace poolscope
