#include "collector/run_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <unordered_map>

namespace poolscope {
namespace {

// A cursor under the run's id: the time up to which its windows are closed.
constexpr int64_t kClosedKey = 0;
// Cursors of a pair of NCCL ranks: how far its sends and its receives count in closed windows.
constexpr int64_t kSentKey = 0, kReceivedKey = 1;
// Messages of this long before the last closed window may still end a wait.
constexpr int64_t kLookBackNs = 60'000'000'000;
// Of an operation that ended this long before, another rank may still be in it.
constexpr int64_t kNcclLookBackNs = 10'000'000'000;

std::string CursorName(const std::string& run, const Collectives::PairKey& pair) {
  const auto& [communicator, sender, receiver] = pair;
  return fmt::format("{}.nccl.{:016x}.{}.{}", run, communicator, sender, receiver);
}

Result<Collectives::Mark> ReadMark(const Store& store, const std::string& run,
                                   const Collectives::PairKey& pair) {
  const auto cursors = store.Cursors(CursorName(run, pair));
  if (!cursors.ok()) return cursors.error();
  Collectives::Mark mark;
  for (const CursorRow& row : *cursors) {
    (row.slot == kSentKey ? mark.sent_ns : mark.received_ns) = row.read_position;
  }
  return mark;
}

}  // namespace

Status RunWindows::Rebuild(const Store& store, const Mapping& mapping) {
  const auto cursors = store.Cursors(model_.run_id());
  if (!cursors.ok()) return cursors.error();
  // 0: no window is closed yet, and every stored event counts.
  const int64_t closed = cursors->empty() ? 0 : cursors->front().read_position;
  builder_.StartAt(closed);
  devices_.StartAt(closed);

  std::map<int64_t, ThreadRow> threads;                               // by id
  std::map<std::pair<std::string, int64_t>, int> workers;             // by session and system's id
  std::map<std::pair<std::string, int64_t>, int64_t> mapped_threads;  // likewise: the store's id
  const auto rows = store.Threads(model_.run_id());
  if (!rows.ok()) return rows.error();
  for (const ThreadRow& thread : *rows) {
    threads[thread.thread_id] = thread;
    if ((thread.tid & kMappedTid) != 0) {
      mapped_threads[{thread.session_id, thread.tid}] = thread.thread_id;
    }
    workers[{thread.session_id, thread.tid}] =
        thread.pool.empty() ? -1 : model_.FindWorker(thread.pool, thread.worker_index);
  }
  std::map<std::string, ProcessFacts> known_of;  // by session
  const auto processes = store.Processes(model_.run_id());
  if (!processes.ok()) return processes.error();
  for (const ProcessRow& process : *processes) {
    auto known = ProcessFacts::Load(store, process);
    if (!known.ok()) return known.error();
    known_of[process.session_id] = std::move(*known);
  }
  const auto worker_of = [&](const ThreadRow& thread, int64_t tid) {
    const auto found = workers.find({thread.session_id, tid});
    return found == workers.end() ? -1 : found->second;
  };
  const auto id = [&](std::string_view text) {
    const auto found = store.FindString(text);
    return found.ok() ? *found : 0;
  };
  std::unordered_map<uint32_t, std::string> texts;
  const auto text = [&](uint32_t string) -> const std::string& {
    const auto [known, fresh] = texts.try_emplace(string);
    if (!fresh) return known->second;
    if (const auto found = store.String(string); found.ok()) known->second = *found;
    return known->second;
  };
  const uint32_t domain = id(kPoolscopeDomain);
  const uint32_t mapped = id(kMappedSchema);
  std::vector<std::pair<uint32_t, PayloadKind>> schemas;
  for (const auto& [name, kind] : kPayloadSchemas) {
    if (const uint32_t schema = id(name); schema != 0) schemas.emplace_back(schema, kind);
  }
  std::vector<Activity> discards;
  std::vector<NcclOperation> operations, unfinished;
  const auto take = [&](const TrackRow& track, const EventBatch& batch) {
    const ThreadRow& thread = threads[track.thread_id];
    const bool of_lane = thread.tid >= kFirstLaneTid;
    const int worker = worker_of(thread, thread.tid);
    if (of_lane && (thread.tid & kMappedTid) != 0) {  // is made of the lane again
      for (const Event& event : batch.events) {
        if (event.end_ns() >= closed - kNcclLookBackNs) {
          matched_before_.emplace(thread.thread_id, event.start_ns, event.end_ns(), event.category);
        }
        const auto fields = batch.Payload(event, id(kTransferSchema));
        if (fields.size() > kTransferSequence) collectives_.SawSequence(fields[kTransferSequence]);
      }
      return true;
    }
    const bool launched =
        of_lane && !known_of[thread.session_id].LaneMapped(static_cast<uint32_t>(thread.tid));
    if (track.kind == static_cast<uint32_t>(EventKind::kCounter)) {
      const std::string name = text(track.counter);
      const std::string_view link = DepthCounterLink(name);
      const bool occupancy = IsOccupancyCounter(name) && worker >= 0;
      const auto device = batch.events.empty()
                              ? std::nullopt
                              : DeviceCounterOf(text(batch.events.front().domain), name);
      if (link.empty() && !occupancy && !device) return true;
      const DeviceId device_id =
          device ? known_of[thread.session_id].Device(thread.session_id, device->device)
                 : DeviceId{};
      for (const Event& event : batch.events) {
        const double value = (event.flags & kEventFloat) != 0
                                 ? std::bit_cast<double>(event.value)
                                 : static_cast<double>(static_cast<int64_t>(event.value));
        if (!link.empty()) {
          builder_.Add(DepthSample{model_.AddLink(link), event.start_ns, value}, thread.session_id);
        }
        if (occupancy && value >= 0 && value <= 1) {
          builder_.Add(OccupancySample{worker, event.start_ns, value});
        }
        if (device && value >= 0) devices_.Add(device_id, {*device, event.start_ns, value});
      }
      return true;
    }
    const auto shifts =
        known_of[thread.session_id].Shifts(static_cast<uint32_t>(thread.tid & ~kMappedTid));
    const auto worker_at = [&](int64_t ns) {
      if (shifts.empty()) return worker;
      const ProcessFacts::Shift* last = &shifts.front();
      for (const auto& shift : shifts) last = shift.ns <= ns ? &shift : last;
      return model_.FindWorker(last->pool, last->index);
    };
    const auto lane = known_of[thread.session_id].LaneOf(static_cast<uint32_t>(thread.tid));
    const std::string communicator = lane.has_value() ? lane->communicator : "";
    for (const Event& event : batch.events) {
      Activity activity;
      if (event.domain == domain && domain != 0) {
        if (event.category < 1 || event.category > static_cast<uint32_t>(kLastCategory)) {
          continue;
        }
        activity.category = static_cast<Category>(event.category);
        if (NamesLink(activity.category)) activity.link = model_.AddLink(text(event.name));
        activity.mapped = mapped != 0 && !batch.Payload(event, mapped).empty();
      } else if (of_lane && mapping.has_ranges()) {
        // Of threads, what the mapping gives a meaning stands in the store as annotated.
        RangeFacts facts{text(event.domain), "",          text(event.name),
                         thread.name,        thread.pool, communicator};
        if (const Mapping::RangeRule* rule = mapping.MatchRange(facts); rule != nullptr) {
          activity.category = rule->category_meant;
          activity.stage = rule->stage;
          if (!rule->link.empty()) activity.link = model_.AddLink(rule->link);
        }
      }
      if (activity.category == Category::kNone && !of_lane) continue;
      PayloadKind payload = PayloadKind::kNone;
      std::span<const uint64_t> values;
      bool valid = true;
      for (const auto& [schema, kind] : schemas) {
        values = batch.Payload(event, schema);
        if (values.empty()) continue;
        payload = kind;
        valid = TakeFields(kind, values, activity);
        break;
      }
      const bool means =
          activity.category != Category::kNone || MeanByItself(payload, text(event.name), activity);
      if (!valid || (!means && payload != PayloadKind::kNccl)) continue;
      activity.on_thread = event.kind == EventKind::kRange && (event.flags & kEventStartEnd) == 0;
      const int launcher = launched ? worker_of(thread, activity.launch_tid) : -1;
      activity.worker = launcher >= 0 ? launcher : worker_at(event.start_ns);
      activity.begin_ns = event.start_ns;
      activity.end_ns = event.end_ns();
      if (payload == PayloadKind::kNccl && (!means || activity.link >= 0)) {
        NcclOperation operation;
        operation.worker = activity.worker;
        operation.link = activity.link;
        operation.begin_ns = activity.begin_ns;
        operation.end_ns = activity.end_ns;
        const auto made = mapped_threads.find({thread.session_id, thread.tid | kMappedTid});
        if (made != mapped_threads.end()) {
          operation.origin = {made->second, event.domain, event.name};
        }
        if (activity.end_ns >= closed - kNcclLookBackNs && values.size() >= kNcclFields &&
            TakeNccl(values, text(event.name), text(static_cast<uint32_t>(values[kNcclTiming])),
                     operation)) {
          ((event.flags & kEventOpenAtDeath) != 0 ? unfinished : operations).push_back(operation);
        }
        continue;
      }
      if (activity.worker >= 0 && activity.on_device) {
        model_.TakeDevice(activity.worker, {}, activity);
      }
      if (activity.category == Category::kDiscard) {
        discards.push_back(activity);
      } else {
        builder_.AddStored(activity);
      }
    }
    return true;
  };
  if (auto read = store.ReadEvents(model_.run_id(), {closed - kLookBackNs, INT64_MAX}, take);
      !read.ok()) {
    return read;
  }
  for (const Activity& discard : discards) builder_.AddStored(discard);
  std::map<Collectives::PairKey, Collectives::Mark> marks;
  for (const NcclOperation& operation : operations) {
    Collectives::Mark none;
    Collectives::Mark* mark = &none;
    if (operation.point_to_point()) {
      const auto [known, fresh] = marks.try_emplace(Collectives::PairOf(operation));
      mark = &known->second;
      if (fresh) {
        auto read = ReadMark(store, model_.run_id(), known->first);
        if (!read.ok()) return read.error();
        *mark = *read;
      }
    }
    collectives_.AddStored(operation, *mark);
  }
  collectives_.Settle(closed);
  for (const NcclOperation& operation : unfinished) collectives_.Learn(operation);
  for (const NcclOperation& operation : unfinished) {
    if (!operation.timed || operation.worker < 0 || operation.end_ns < closed) continue;
    builder_.AddStored(collectives_.Wait(operation));
  }

  for (const ThreadRow& thread : *rows) {
    const auto shifts = known_of[thread.session_id].Shifts(static_cast<uint32_t>(thread.tid));
    for (size_t i = 0; i + 1 < shifts.size(); ++i) {
      const auto same = [&](const auto& later) {
        return later.pool == shifts[i].pool && later.index == shifts[i].index;
      };
      if (std::any_of(shifts.begin() + static_cast<long>(i) + 1, shifts.end(), same)) continue;
      const int worker = model_.FindWorker(shifts[i].pool, shifts[i].index);
      if (worker >= 0) builder_.EndWorker(worker, shifts[i + 1].ns);
    }
  }
  for (const ProcessRow& process : *processes) {
    if (process.end_reason.empty()) continue;
    builder_.EndSource(process.session_id, process.end_ns);
    for (int i = 0; i < static_cast<int>(model_.workers().size()); ++i) {
      if (model_.workers()[static_cast<size_t>(i)].session_id == process.session_id) {
        builder_.EndWorker(i, process.end_ns);
      }
    }
  }
  return {};
}

void RunWindows::Drop(const SessionDrain& session) {
  builder_.SetOpen(session.head().session_id, {});
  for (const int worker : session.workers()) builder_.EndWorker(worker, session.last_ns());
  builder_.EndSource(session.head().session_id, session.last_ns());
}

void RunWindows::Add(const SessionDrain& session, const SessionDrain::Round& round) {
  round_.insert(round_.end(), round.activities.begin(), round.activities.end());
  for (const NcclOperation& operation : round.operations) collectives_.Add(operation);
  for (const DepthSample& sample : round.samples) {
    builder_.Add(sample, session.head().session_id);
  }
  for (const OccupancySample& sample : round.occupancy) builder_.Add(sample);
  for (const DeviceSample& sample : round.devices) {
    devices_.Add(session.Device(sample.counter.device), sample);
  }
  for (const SessionLosses::Span& span : round.losses.unknown) {
    builder_.AddUnknown(session.workers(), span.begin_ns, span.end_ns);
  }
  // What they mean is known when all of the round's sessions have been heard.
  for (const NcclOperation& operation : round.open_operations) collectives_.Learn(operation);
  for (const NcclOperation& operation : round.unfinished) collectives_.Learn(operation);
  open_.push_back({session.head().session_id, round.open, round.open_operations, round.unfinished});
  for (const SessionDrain::Round::Gone& gone : round.gone) {
    builder_.EndWorker(gone.worker, gone.last_ns);
  }
  if (session.finished()) {
    for (const int worker : session.workers()) builder_.EndWorker(worker, session.last_ns());
    builder_.EndSource(session.head().session_id, session.last_ns());
  }
}

Status RunWindows::Save(Store& store, int64_t now_ns, bool last) {
  const int64_t until_ns = last ? now_ns : now_ns - kWatermarkNs;
  for (Open& open : std::exchange(open_, {})) {
    for (const NcclOperation& operation : open.operations) {
      if (operation.worker >= 0) open.activities.push_back(collectives_.Wait(operation));
    }
    builder_.SetOpen(open.session_id, std::move(open.activities));
    for (const NcclOperation& operation : open.unfinished) {
      if (operation.worker >= 0) round_.push_back(collectives_.Wait(operation));
    }
  }
  const auto matched = collectives_.Take(last ? INT64_MAX : until_ns);
  round_.insert(round_.end(), matched.begin(), matched.end());
  if (auto put = PutMatched(store, matched); !put.ok()) return put;
  saved_collectives_ = collectives_.Rows(builder_.closed_ns());
  for (const CollectiveWindowRow& row : saved_collectives_) {
    if (auto put = store.Put(row); !put.ok()) return put;
  }
  saved_devices_ = devices_.Close(last ? INT64_MAX : until_ns);
  for (const Activity& activity : round_) {
    if (activity.category != Category::kDiscard) builder_.Add(activity);
    if (activity.category != Category::kStep || activity.step == kNoValue) continue;
    StepRow row{model_.run_id(),
                static_cast<int64_t>(activity.step),
                activity.begin_ns,
                static_cast<int64_t>(activity.version == kNoValue ? 0 : activity.version),
                static_cast<int64_t>(activity.tokens),
                static_cast<int64_t>(activity.micro_batches)};
    if (std::isfinite(activity.value)) row.loss = activity.value;
    steps_.push_back(row);
  }
  for (const Activity& activity : round_) {
    if (activity.category == Category::kDiscard) builder_.Add(activity);
  }
  activities_ = std::exchange(round_, {});
  saved_steps_ = std::exchange(steps_, {});
  for (const StepRow& row : saved_steps_) {
    if (auto put = store.Put(row); !put.ok()) return put;
  }
  closed_ = builder_.Close(until_ns, last);
  for (const WindowRows& rows : closed_) {
    if (auto put = PutRows(store, rows); !put.ok()) return put;
  }
  if (closed_.empty()) return {};
  for (const auto& [pair, mark] : collectives_.Marks(builder_.closed_ns())) {
    for (const auto& [key, end_ns] :
         {std::pair(kSentKey, mark.sent_ns), std::pair(kReceivedKey, mark.received_ns)}) {
      if (end_ns == INT64_MIN) continue;
      const CursorRow row{CursorName(model_.run_id(), pair), key, 0, end_ns};
      if (auto put = store.Put(row); !put.ok()) return put;
    }
  }
  return store.Put(CursorRow{model_.run_id(), kClosedKey, 0, builder_.closed_ns()});
}

Status RunWindows::PutMatched(Store& store, const std::vector<Activity>& matched) {
  std::map<int64_t, EventBatch> made;  // by thread
  for (const Activity& activity : matched) {
    const Activity::Origin& origin = activity.origin;
    const auto category = static_cast<uint32_t>(activity.category);
    if (origin.thread == 0 ||
        matched_before_.count({origin.thread, activity.begin_ns, activity.end_ns, category}) != 0) {
      continue;
    }
    Event from;
    from.start_ns = activity.begin_ns;
    from.duration_ns = activity.end_ns - activity.begin_ns;
    from.domain = origin.domain;
    from.name = origin.name;
    const std::string link =
        activity.link < 0 ? "" : model_.links()[static_cast<size_t>(activity.link)].name;
    if (auto put = matched_events_.Write(store, from, activity, link, made[origin.thread]);
        !put.ok()) {
      return put;
    }
  }
  for (const auto& [thread, batch] : made) {
    const auto track =
        store.TrackId({0, model_.run_id(), thread, static_cast<uint32_t>(EventKind::kRange), 0});
    if (!track.ok()) return track.error();
    if (auto appended = store.Append(*track, batch); !appended.ok()) return appended;
  }
  return {};
}

Status RunWindows::PutRows(Store& store, const WindowRows& rows) const {
  for (const auto& row : rows.workers) {
    if (auto put = store.Put(row); !put.ok()) return put;
  }
  for (const auto& row : rows.worker_links) {
    if (auto put = store.Put(row); !put.ok()) return put;
  }
  for (const auto& row : rows.pools) {
    if (auto put = store.Put(row); !put.ok()) return put;
  }
  for (const auto& row : rows.links) {
    if (auto put = store.Put(row); !put.ok()) return put;
  }
  if (rows.version.has_value()) return store.Put(*rows.version);
  return {};
}

}  // namespace poolscope
