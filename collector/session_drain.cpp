#include "collector/session_drain.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace poolscope {

Result<std::unique_ptr<SessionDrain>> SessionDrain::Open(SessionReader reader,
                                                         const Mapping& mapping, RunModel& model,
                                                         int64_t offset_ns, Store& store) {
  std::unique_ptr<SessionDrain> drain(
      new SessionDrain(std::move(reader), mapping, model, offset_ns));
  const auto process = store.FindProcess(drain->head().session_id);
  if (!process.ok()) return process.error();
  if (process->has_value()) {
    drain->process_ = **process;
    drain->process_saved_ = true;
    // It lived for as long as a predecessor saw the run.
    const auto run = store.FindRun(drain->head().run_id);
    drain->last_ns_ = std::max(drain->process_.start_ns, run.ok() ? run->end_ns : 0);
  } else {
    const SessionHead& head = drain->head();
    drain->process_ = {head.session_id, head.run_id, head.host,
                       head.command,    head.pid,    head.parent_pid};
  }
  auto facts = ProcessFacts::Load(store, drain->process_);
  if (!facts.ok()) return facts.error();
  drain->facts_ = std::move(*facts);
  if (!drain->process_saved_) {
    drain->facts_.ReadEnvironment(drain->head(), drain->path(), mapping.Variables());
  }
  if (auto loaded = drain->LoadCursors(store); !loaded.ok()) return loaded.error();
  if (auto loaded = drain->LoadWorkers(store); !loaded.ok()) return loaded.error();
  if (drain->finished()) return drain;
  if (auto set = drain->reader_.SetRingMode(RingMode::kDropNewest); !set.ok()) return set.error();
  if (auto raised = drain->Release(); !raised.ok()) return raised.error();
  return drain;
}

// Which worker a thread or lane is, is decided once.
Status SessionDrain::LoadWorkers(const Store& store) {
  if (!process_saved_) return {};
  const auto rows = store.Threads(head().run_id);
  if (!rows.ok()) return rows.error();
  for (const ThreadRow& row : *rows) {
    if (row.session_id != head().session_id || row.pool.empty()) continue;
    const int worker = model_.FindWorker(row.pool, row.worker_index);
    if (worker < 0 || mapping_.has_periods()) continue;  // then it is decided again
    Thread& thread = threads_[static_cast<uint32_t>(row.tid)];
    thread.tid = static_cast<uint32_t>(row.tid);
    thread.id = row.thread_id;
    thread.name = row.name;
    thread.worker = worker;
    if (const auto lane = facts_.LaneOf(static_cast<uint32_t>(row.tid))) {
      thread.communicator = lane->communicator;
    }
    AddWorker(worker);
  }
  return {};
}

Result<SessionDrain::Round> SessionDrain::Drain(Store& store, const WindowBuilder& windows) {
  Round round;
  round.windows = &windows;
  if (finished()) return round;
  const bool alive = reader_.WriterAlive();  // before the reads: what is dead writes no more
  auto state = reader_.State();
  unreadable_ = !state.ok();
  if (!state.ok()) {
    const int64_t now_ns = clock_.FromMonotonic(static_cast<uint64_t>(MonotonicNs()));
    if (auto lost = losses_.LoseTheRest(store, last_ns_, now_ns); !lost.ok()) {
      unreadable_ = false;
      return lost.error();
    }
    return state.error();
  }
  clock_.Begin(state->triples, head().clock);
  if (process_.start_ns == 0) {
    process_.start_ns =
        state->triples.empty() ? clock_.now_ns() : clock_.NsOrNow(state->triples.front().ticks);
    last_ns_ = process_.start_ns;
    model_.SawStart(process_.start_ns);
  }
  if (alive) last_ns_ = std::max(last_ns_, clock_.now_ns());
  if (auto taken = TakeDefinitions(store); !taken.ok()) return taken.error();
  if (alive) {
    if (auto taken = TakeOpenRanges(store, *state, round); !taken.ok()) return taken.error();
  }
  for (uint32_t i = 0; i < state->slots_used; ++i) {
    const auto view = reader_.Slot(i);
    const bool was_bad = std::exchange(slots_[i].bad, !view.ok());
    if (!view.ok()) {
      if (!was_bad) CountUndecodable();
      continue;
    }
    if (auto drained = DrainSlot(store, i, *view, round); !drained.ok()) {
      return drained.error();
    }
  }
  if (!alive) TakeLostByDeath(*state);
  if (auto taken = losses_.Take(store, *state, clock_, round.losses); !taken.ok()) {
    return taken.error();
  }
  if (!alive) {
    if (auto done = Finish(store, *state, round); !done.ok()) return done.error();
  }
  for (auto& [tid, thread] : threads_) {
    if (auto flushed = FlushThread(store, thread); !flushed.ok()) return flushed.error();
  }
  if (auto saved = SaveCursors(store); !saved.ok()) return saved.error();
  for (const auto& [key, next] : sequences_) {
    const auto& [link, stage, source] = key;
    facts_.SetSequence(model_.links()[static_cast<size_t>(link)].name, stage, source, next);
  }
  if (auto saved = facts_.Save(store, head().session_id); !saved.ok()) return saved.error();
  if (!process_saved_ || finished()) {
    if (auto put = store.Put(process_); !put.ok()) return put.error();
    process_saved_ = true;
  }
  return round;
}

Status SessionDrain::DrainSlot(Store& store, uint32_t index, const SlotView& view, Round& round) {
  if (view.overwriting && reader_.WriterAlive()) return {};  // a round later it has counted
  Slot& slot = slots_[index];
  if (!slot.known || slot.incarnation != view.incarnation) {
    // A slot is only taken again when all of its previous thread is read, or overwritten.
    ThreadGone(slot, round);
    const uint64_t raised = slot.raised;
    slot = {};
    slot.known = slot.changed = true;
    slot.incarnation = view.incarnation;
    slot.position = std::max(view.first_position, view.read_position);
    slot.raised = raised;
  }
  slot.tid = view.tid;
  slot.name = view.name;
  // Its state may be newer than its write position: the round after has all.
  const bool exited = std::exchange(slot.exited, view.state == SlotState::kThreadExited);
  if (view.ring_offset == 0) return {};
  const uint64_t from = std::max(slot.position, view.first_position);
  if (from > view.write_position) {  // impossible: start again from where the writer is
    CountUndecodable();
    slot.position = view.write_position;
    slot.changed = true;
    return {};
  }
  if (from == view.write_position) {
    if (exited) ThreadGone(slot, round);
    return {};
  }
  round.fill = std::max(round.fill, static_cast<double>(view.write_position - from) /
                                        static_cast<double>(view.ring_bytes));
  const auto start = reader_.CopyRing(index, view, from, words_);
  slot.position = view.write_position;
  slot.changed = true;
  if (!start.ok()) {
    CountUndecodable();
    return {};
  }
  // What the records use was defined before them: this reads it at the latest.
  if (auto taken = TakeDefinitions(store); !taken.ok()) return taken;
  auto thread = ThreadOf(store, view.tid);
  if (!thread.ok()) return thread.error();
  round.bytes += words_.size() * 8;
  size_t at = 0;
  Record record;
  while (at < words_.size()) {
    if (!DecodeUntrusted(words_, reader_.definitions(), at, record)) {
      CountUndecodable();
      round.losses.unknown.push_back({last_ns_, clock_.now_ns()});
      break;
    }
    if (record.kind == RecordKind::kPad) continue;
    if (!PlausibleTimes(record)) {
      CountUndecodable();
      continue;
    }
    if (record.kind == RecordKind::kRange) slot.last_open = record.id + 1;
    if (record.kind == RecordKind::kProcessRange) slot.last_range = record.id;
    ++round.events;
    Thread* of = *thread;
    if (record.kind == RecordKind::kActivity) {
      auto lane = LaneThread(store, record.lane);
      if (!lane.ok()) return lane.error();
      of = *lane;
    }
    ended_operation_ = 0;
    if (auto taken = Take(store, record, *of, round); !taken.ok()) return taken;
    if (ended_operation_ != 0) slot.last_range = ended_operation_;
  }
  return {};
}

void SessionDrain::ThreadGone(Slot& slot, Round& round) {
  const auto found = threads_.find(slot.tid);
  if (std::exchange(slot.told, true) || found == threads_.end()) return;
  found->second.exited = true;
  const int worker = found->second.worker;
  int64_t last_ns = 0;
  for (const auto& [tid, thread] : threads_) {
    if (thread.worker != worker || thread.last_ns == 0) continue;
    if (!thread.exited && tid < kFirstLaneTid) return;
    last_ns = std::max(last_ns, thread.last_ns);
  }
  if (worker >= 0 && last_ns > 0) round.gone.push_back({worker, last_ns});
}

bool SessionDrain::PlausibleTimes(const Record& record) const {
  if ((record.flags & kRecordMonotonic) != 0) return clock_.PlausibleMonotonic(record.end_ticks);
  return clock_.Plausible(record.start_ticks) && clock_.Plausible(record.end_ticks);
}

Status SessionDrain::Take(Store& store, const Record& record, Thread& thread, Round& round) {
  Event event;
  const auto ns = [&](uint64_t at) {
    return (record.flags & kRecordMonotonic) != 0 ? clock_.FromMonotonic(at) : clock_.Ns(at);
  };
  event.start_ns = ns(record.start_ticks);
  if (record.end_ticks != record.start_ticks) {
    event.duration_ns = std::max<int64_t>(0, ns(record.end_ticks) - event.start_ns);
  }
  event.value = record.value;
  event.category = record.category;
  event.depth = record.depth;
  last_ns_ = std::max(last_ns_, event.end_ns());
  thread.last_ns = std::max(thread.last_ns, event.end_ns());
  thread.exited = false;
  const auto worker = WorkerAt(store, thread, event.start_ns, round);
  if (!worker.ok()) return worker.error();
  const uint32_t domain_name = reader_.definitions().domains[record.domain];
  auto name = record.kind == RecordKind::kActivity ? StoreSymbol(store, record.name)
                                                   : StoreString(store, record.name);
  if (!name.ok()) return name.error();
  auto domain = StoreString(store, domain_name);
  if (!domain.ok()) return domain.error();
  event.name = *name;
  event.domain = *domain;
  Track* track = &thread.ranges;
  switch (record.kind) {
    case RecordKind::kMark:
      event.kind = EventKind::kMark;
      track = &thread.marks;
      TakeDevice(record);
      break;
    case RecordKind::kCounter:
      event.kind = EventKind::kCounter;
      if ((record.flags & kRecordFloat) != 0) event.flags |= kEventFloat;
      track = &thread.counters[*name];
      break;
    case RecordKind::kProcessRange:
      event.flags |= kEventStartEnd;
      break;
    case RecordKind::kRange:
      if ((record.flags & kRecordOpenAtExit) != 0) event.flags |= kEventOpenAtDeath;
      break;
    default:
      break;
  }
  if (!record.payload.empty()) {
    if (auto taken = TakePayload(store, record.payload, track->batch, event); !taken.ok()) {
      return taken;
    }
  }
  track->batch.events.push_back(event);

  if (record.kind == RecordKind::kCounter) {
    const CounterMeaning& meaning = MeaningOf(record.name);
    const double value = (record.flags & kRecordFloat) != 0
                             ? std::bit_cast<double>(record.value)
                             : static_cast<double>(static_cast<int64_t>(record.value));
    // What is no number of messages is no depth, what is no share no occupancy.
    if (!(value >= 0) || !std::isfinite(value)) return {};
    const int64_t at_ns = clock_.Recent(event.start_ns);
    if (meaning.device) round.devices.push_back({*meaning.device, at_ns, value});
    if (meaning.link >= 0) round.samples.push_back({meaning.link, at_ns, value});
    if (meaning.occupancy && *worker >= 0 && value <= 1) {
      round.occupancy.push_back({*worker, at_ns, value});
    }
    if (meaning.mapped.empty()) return {};
    auto mapped = MappedThread(store, thread);
    if (!mapped.ok()) return mapped.error();
    const auto name_id = store.Intern(meaning.mapped);
    if (!name_id.ok()) return name_id.error();
    event.name = *name_id;
    event.payload_words = 0;
    (*mapped)->counters[*name_id].batch.events.push_back(event);
    return {};
  }
  const bool of_lane = record.kind == RecordKind::kActivity;
  if (record.domain != poolscope_domain_ && !mapping_.has_ranges() && !of_lane) return {};
  Activity activity;
  Meaning* by = nullptr;
  const bool means =
      Annotate(&thread, record.domain, record.category, record.name, record.payload, activity, by);
  const Carried carried{record.payload, record.value, (record.flags & kRecordFloat) != 0,
                        reader_.definitions()};
  if (by != nullptr && by->step != nullptr) {
    if (auto taken = TakeStep(store, *by, carried, event, thread, round); !taken.ok()) return taken;
  }
  NcclOperation operation;
  bool nccl = of_lane && TakeNccl(record.name, record.payload, operation);
  if (nccl) ended_operation_ = operation.open_id;
  nccl = nccl && IsNcclOperation(activity);
  if (!means && !nccl) return {};
  activity.on_thread = record.kind == RecordKind::kRange || of_lane;
  activity.worker = *worker;
  activity.begin_ns = clock_.Recent(event.start_ns);
  activity.end_ns = std::max(activity.begin_ns, event.end_ns());
  if (of_lane) {
    if (auto found = FindWorker(store, record.lane, thread, activity); !found.ok()) return found;
    // What was in the table of open ranges counted as such in windows that are closed.
    const int64_t late_before_ns = ended_operation_ != 0 ? INT64_MIN
                                   : activity.on_device ? round.windows->LateBefore(activity.worker)
                                                        : round.windows->closed_ns();
    if (activity.worker >= 0 && activity.begin_ns < late_before_ns) {
      losses_.Count(LossCause::kLate, activity.begin_ns, std::min(activity.end_ns, late_before_ns));
    }
  }
  if (nccl) {
    operation.worker = activity.worker;
    operation.link = activity.link;
    operation.begin_ns = activity.begin_ns;
    operation.end_ns = activity.end_ns;
    const auto mapped = MappedThread(store, thread);
    if (!mapped.ok()) return mapped.error();
    operation.origin = {(*mapped)->id, event.domain, event.name};
    round.operations.push_back(operation);
    return {};
  }
  if (activity.category == Category::kStep) {
    model_.SawVersion(activity.version, activity.begin_ns);
  }
  if (activity.mapped) return TakeMapped(store, *by, carried, event, thread, activity, round);
  round.activities.push_back(activity);
  return {};
}

bool SessionDrain::TakeNccl(uint32_t name, std::span<const uint64_t> payload,
                            NcclOperation& out) const {
  const auto [kind, values] = Known(payload);
  if (kind != PayloadKind::kNccl || values.size() < kNcclFields) return false;
  const std::vector<std::string>& strings = reader_.definitions().strings;
  const uint64_t timing = values[kNcclTiming];
  return poolscope::TakeNccl(values, strings[name], timing < strings.size() ? strings[timing] : "",
                             out);
}

void SessionDrain::TakeDevice(const Record& record) {
  const auto [kind, values] = Known(record.payload);
  const std::vector<std::string>& strings = reader_.definitions().strings;
  if (kind != PayloadKind::kDevice || values.size() < 2 || values[1] >= strings.size()) return;
  facts_.SetDevice(values[0], strings[values[1]].substr(0, kMaxUuid));
}

Status SessionDrain::TakePayload(Store& store, std::span<const uint64_t> payload, EventBatch& batch,
                                 Event& event) {
  event.payload_offset = static_cast<uint32_t>(batch.words.size());
  event.payload_words = static_cast<uint16_t>(payload.size());
  size_t at = 0;
  while (at < payload.size()) {
    const auto schema = static_cast<uint32_t>(payload[at]);
    const size_t count = payload[at] >> 32;
    auto id = StoreString(store, schema);
    if (!id.ok()) return id.error();
    batch.words.push_back(*id | uint64_t{count} << 32);
    const auto strings = string_fields_.find(schema);
    for (size_t i = 0; i < count; ++i) {
      uint64_t value = payload[at + 1 + i];
      // An array has one field for all.
      if (strings != string_fields_.end() &&
          strings->second[std::min(i, strings->second.size() - 1)]) {
        auto text = StoreString(
            store, value < reader_.definitions().strings.size() ? static_cast<uint32_t>(value) : 0);
        if (!text.ok()) return text.error();
        value = *text;
      }
      batch.words.push_back(value);
    }
    at += 1 + count;
  }
  return {};
}

// The process is dead: ranges beyond its threads' stacks, which would have been counted at their
// ends, are lost now; and so is, where it did not exit, what CUPTI had not yet handed over.
void SessionDrain::TakeLostByDeath(SessionState& state) const {
  LossState& loss = state.losses[static_cast<size_t>(LossCause::kOpenTableFull)];
  for (uint32_t i = 0; i < state.slots_used; ++i) {
    const auto view = reader_.Slot(i);
    if (!view.ok() || view->state != SlotState::kLive || view->open_overflow == 0) continue;
    if (loss.events == 0) loss.first_ticks = view->start_ticks;
    loss.last_ticks = clock_.newest_triple();
    loss.events += view->open_overflow;
  }
  for (const auto& [number, lane] : reader_.definitions().lanes) {
    if (state.ended || lane.kind != LaneKind::kDeviceStream) continue;
    const uint64_t ticks = clock_.newest_triple();
    state.losses[static_cast<size_t>(LossCause::kUnknownCount)] = {1, ticks, ticks};
  }
}

Status SessionDrain::FlushThread(Store& store, Thread& thread) {
  const auto flush = [&](Track& track, EventKind kind, uint32_t counter) -> Status {
    if (track.batch.events.empty()) return {};
    if (track.id == 0) {
      auto id = store.TrackId({0, head().run_id, thread.id, static_cast<uint32_t>(kind), counter});
      if (!id.ok()) return id.error();
      track.id = *id;
    }
    if (auto appended = store.Append(track.id, track.batch); !appended.ok()) return appended;
    track.batch.events.clear();
    track.batch.words.clear();
    return {};
  };
  if (auto done = flush(thread.ranges, EventKind::kRange, 0); !done.ok()) return done;
  if (auto done = flush(thread.marks, EventKind::kMark, 0); !done.ok()) return done;
  for (auto& [name, track] : thread.counters) {
    if (auto done = flush(track, EventKind::kCounter, name); !done.ok()) return done;
  }
  return {};
}

}  // namespace poolscope
