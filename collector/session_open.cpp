// What is open in a session: now, and when its process died.

#include <algorithm>

#include "collector/session_drain.h"

namespace poolscope {

Status SessionDrain::TakeOpenRanges(Store& store, const SessionState& state, Round& round) {
  std::vector<OpenRange> stack;
  const auto add = [&](const Thread* thread, uint32_t domain, uint32_t category, uint32_t name,
                       uint64_t start, std::span<const uint64_t> payload, bool on_thread) {
    if (domain != poolscope_domain_ && !mapping_.has_ranges()) return;
    Activity activity;
    Meaning* by = nullptr;
    if (!clock_.Plausible(start) ||
        !Annotate(thread, domain, category, name, payload, activity, by)) {
      return;
    }
    activity.begin_ns = clock_.Recent(clock_.Ns(start));
    activity.end_ns = std::max(activity.begin_ns, clock_.now_ns());
    activity.on_thread = on_thread;
    activity.worker = thread == nullptr ? -1 : thread->worker;
    round.open.push_back(activity);
  };
  for (uint32_t i = 0; i < state.slots_used; ++i) {
    const auto view = reader_.Slot(i);
    if (!view.ok() || view->state != SlotState::kLive || view->open_depth == 0) continue;
    const auto thread = threads_.find(view->tid);
    if (thread == threads_.end() || thread->second.worker < 0) continue;
    if (!reader_.ReadOpenStack(i, stack).ok()) continue;
    for (const OpenRange& range : stack) {
      add(&thread->second, range.domain, range.category, range.name, range.start_ticks, {}, true);
    }
  }
  std::vector<OpenProcessRange> ranges;
  if (reader_.ReadProcessRanges(ranges).ok()) {
    for (const OpenProcessRange& range : ranges) {
      Activity activity;
      NcclOperation operation;
      const auto lane = OpenOperation(store, range, activity, operation);
      if (!lane.ok()) return lane.error();
      if (*lane != nullptr) {
        if (!operation.timed) continue;  // enqueued, and not begun
        if (IsNcclOperation(activity)) {
          round.open_operations.push_back(operation);
        } else {
          round.open.push_back(activity);
        }
        continue;
      }
      const auto thread = threads_.find(range.start_tid);
      add(thread == threads_.end() ? nullptr : &thread->second, range.domain, range.category,
          range.name, range.start_ticks, range.payload, false);
    }
  }
  return {};
}

Status SessionDrain::Finish(Store& store, const SessionState& state, Round& round) {
  process_.end_ns = std::max(last_ns_, process_.start_ns);
  process_.end_reason = state.ended ? "exited" : "killed";
  model_.ReleaseSteps(head().session_id);
  const auto close = [&](uint32_t tid, uint64_t start, uint32_t name, uint32_t category,
                         uint32_t domain, std::span<const uint64_t> payload, uint16_t depth,
                         uint8_t flags, uint64_t value) -> Status {
    if (!clock_.Plausible(start)) return {};
    auto thread = ThreadOf(store, tid);
    if (!thread.ok()) return thread.error();
    Event event;
    event.start_ns = clock_.Ns(start);
    event.duration_ns = std::max<int64_t>(0, process_.end_ns - event.start_ns);
    event.category = category;
    event.depth = depth;
    event.value = value;
    event.flags = static_cast<uint8_t>(flags | kEventOpenAtDeath);
    auto name_id = StoreString(store, name);
    if (!name_id.ok()) return name_id.error();
    auto domain_id = StoreString(store, reader_.definitions().domains[domain]);
    if (!domain_id.ok()) return domain_id.error();
    event.name = *name_id;
    event.domain = *domain_id;
    Track& track = (*thread)->ranges;
    if (!payload.empty()) {
      if (auto taken = TakePayload(store, payload, track.batch, event); !taken.ok()) return taken;
    }
    track.batch.events.push_back(event);
    ++round.events;
    const OpenRangeRow row{
        head().run_id, head().session_id, tid,           reader_.definitions().strings[name],
        category,      event.start_ns,    event.end_ns()};
    if (auto put = store.Put(row); !put.ok()) return put;
    Activity activity;
    Meaning* by = nullptr;
    if ((domain != poolscope_domain_ && !mapping_.has_ranges()) ||
        !Annotate(*thread, domain, category, name, payload, activity, by)) {
      return {};
    }
    activity.worker = (*thread)->worker;
    activity.on_thread = (flags & kEventStartEnd) == 0;
    activity.begin_ns = clock_.Recent(event.start_ns);
    activity.end_ns = std::max(activity.begin_ns, event.end_ns());
    if (by != nullptr && activity.mapped) {
      return TakeMapped(store, *by, {payload, value, false, reader_.definitions()}, event, **thread,
                        activity, round);
    }
    round.activities.push_back(activity);
    return {};
  };
  std::vector<OpenRange> stack;
  for (uint32_t i = 0; i < state.slots_used; ++i) {
    const auto view = reader_.Slot(i);
    if (!view.ok() || view->state != SlotState::kLive || view->open_depth == 0) continue;
    if (!reader_.ReadOpenStack(i, stack).ok()) continue;
    for (size_t depth = stack.size(); depth-- > 0;) {
      const OpenRange& range = stack[depth];
      if (range.open_id + uint64_t{1} == slots_[i].last_open)
        continue;  // its end record is in the ring
      if (auto closed = close(view->tid, range.start_ticks, range.name, range.category,
                              range.domain, {}, static_cast<uint16_t>(depth), 0, 0);
          !closed.ok()) {
        return closed;
      }
    }
  }
  std::vector<OpenProcessRange> ranges;
  if (!reader_.ReadProcessRanges(ranges).ok()) return {};
  for (const OpenProcessRange& range : ranges) {
    const auto ended = [&](const Slot& slot) { return slot.last_range == range.id; };
    if (std::any_of(slots_.begin(), slots_.end(), ended)) continue;
    Activity activity;
    NcclOperation operation;
    const auto lane = OpenOperation(store, range, activity, operation);
    if (!lane.ok()) return lane.error();
    const bool nccl = *lane != nullptr;
    if (nccl && operation.timed && IsNcclOperation(activity)) {
      operation.end_ns = std::max(operation.begin_ns, process_.end_ns);
      round.unfinished.push_back(operation);
    }
    if (auto closed = close(nccl ? (*lane)->tid : range.start_tid, range.start_ticks, range.name,
                            range.category, range.domain, range.payload, 0,
                            nccl ? 0 : kEventStartEnd, range.value);
        !closed.ok()) {
      return closed;
    }
  }
  return {};
}

Result<SessionDrain::Thread*> SessionDrain::OpenOperation(Store& store,
                                                          const OpenProcessRange& range,
                                                          Activity& activity,
                                                          NcclOperation& operation) {
  if (!TakeNccl(range.name, range.payload, operation)) return nullptr;
  const auto& lanes = reader_.definitions().lanes;
  const auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const auto& entry) {
    return entry.second.kind == LaneKind::kCommunicator &&
           entry.second.context == operation.communicator &&
           static_cast<int64_t>(entry.second.number) == operation.rank;
  });
  if (lane == lanes.end()) return nullptr;
  const auto thread = LaneThread(store, lane->first);
  if (!thread.ok()) return thread;
  Meaning* by = nullptr;
  Annotate(*thread, range.domain, range.category, range.name, range.payload, activity, by);
  activity.begin_ns = clock_.Recent(clock_.NsOrNow(range.start_ticks));
  activity.end_ns = std::max(activity.begin_ns, clock_.now_ns());
  activity.worker = (*thread)->worker;
  if (auto found = FindWorker(store, lane->first, **thread, activity); !found.ok()) {
    return found.error();
  }
  operation.worker = activity.worker;
  operation.link = activity.link;
  operation.begin_ns = activity.begin_ns;
  operation.end_ns = activity.end_ns;
  return thread;
}

}  // namespace poolscope
