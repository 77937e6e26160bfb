#include "advisor/event_records.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

namespace poolscope {
namespace {

struct Owner {
  int pool = -1, worker = -1;
};

struct WantedChunk {
  size_t track;
  int64_t chunk_index, last_ns, events;
  bool first;
};

class Reader {
 public:
  Reader(const Store& store, const RunData& run) : store_(store), run_(run) {}

  Status Prepare() {
    for (const auto& [text, id] : {std::pair{kPoolscopeDomain, &domain_},
                                   {kTransferSchema, &transfer_},
                                   {kWorkSchema, &work_},
                                   {kWaitSchema, &wait_},
                                   {kMappedSchema, &mapped_}}) {
      Result<uint32_t> found = store_.FindString(text);
      if (!found) return found.error();
      *id = *found;
    }
    for (size_t i = 0; i < run_.links.size(); ++i) {
      Result<uint32_t> found = store_.FindString(run_.links[i].link);
      if (!found) return found.error();
      if (*found != 0) links_[*found] = static_cast<int>(i);
    }
    records.own.resize(run_.pools.size());
    for (const ThreadRow& thread : run_.threads) {
      for (size_t p = 0; p < run_.pools.size(); ++p) {
        if (thread.pool != run_.pools[p].pool || thread.worker_index < 0) continue;
        owners_[thread.thread_id] = {static_cast<int>(p), static_cast<int>(thread.worker_index)};
        auto& workers = records.own[p];
        const auto index = static_cast<size_t>(thread.worker_index);
        if (workers.size() <= index && index < 65536) workers.resize(index + 1);
      }
    }
    return {};
  }

  // Events that end before begin_ns count only where they belong to no step.
  void Take(const TrackRow& track, const EventBatch& batch, int64_t begin_ns, int64_t end_ns) {
    const auto owner = owners_.find(track.thread_id);
    for (const Event& event : batch.events) {
      if (event.domain != domain_ || event.kind != EventKind::kRange) continue;
      if (event.flags & kEventOpenAtDeath) continue;
      const bool early = event.start_ns < begin_ns;
      if (event.end_ns() > end_ns) continue;
      switch (static_cast<Category>(event.category)) {
        case Category::kTransfer:
          TakeTransfer(batch, event, early);
          break;
        case Category::kPhase:
          records.phases.emplace_back(event.start_ns, event.end_ns());
          continue;
        case Category::kWork:
          if (!early && owner != owners_.end()) TakeWork(batch, event, owner->second);
          break;
        case Category::kWaitLink:
          if (!early && owner != owners_.end()) TakeWait(batch, event, owner->second);
          break;
        default:
          break;
      }
      if (early || owner == owners_.end()) continue;
      if (event.flags & kEventStartEnd) continue;
      OwnRange range{event.start_ns, event.end_ns(), event.category, event.name, -1};
      if (event.category == static_cast<uint32_t>(Category::kTransfer)) {
        const auto payload = batch.Payload(event, transfer_);
        if (!payload.empty()) range.stage = static_cast<int>(payload[kTransferStage] & 7);
      }
      OwnOf(owner->second).push_back(range);
    }
  }

  Status Finish() {
    for (auto& [key, record] : transfers_) {
      records.transfers.push_back(record);
      AddHandOver(record);
    }
    for (auto& pool : records.own) {
      for (auto& worker : pool) {
        std::sort(worker.begin(), worker.end(), [](const OwnRange& a, const OwnRange& b) {
          return std::tie(a.start_ns, a.end_ns) < std::tie(b.start_ns, b.end_ns);
        });
      }
    }
    std::sort(records.work.begin(), records.work.end(),
              [](const WorkRecord& a, const WorkRecord& b) { return a.start_ns < b.start_ns; });
    CountMicroBatches();
    std::map<uint32_t, std::string> names;
    for (const WorkRecord& work : records.work) names.emplace(work.name, "");
    for (auto& [id, text] : names) {
      Result<std::string> found = store_.String(id);
      if (!found) return found.error();
      records.names.emplace_back(id, *found);
    }
    return {};
  }

  EventRecords records;

 private:
  std::vector<OwnRange>& OwnOf(Owner owner) {
    return records.own[static_cast<size_t>(owner.pool)][static_cast<size_t>(owner.worker)];
  }

  // The instant of the hand-over belongs to the sender's own time.
  void AddHandOver(const TransferRecord& record) {
    if (!record.stage(0).seen()) return;
    const std::string& from = run_.links[static_cast<size_t>(record.link)].from_pool;
    for (size_t p = 0; p < run_.pools.size(); ++p) {
      if (run_.pools[p].pool != from || record.source >= records.own[p].size()) continue;
      const int64_t at = record.stage(0).start_ns;
      records.own[p][record.source].push_back(
          {at, at, static_cast<uint32_t>(Category::kTransfer), 0, 0});
    }
  }

  void TakeWork(const EventBatch& batch, const Event& event, Owner owner) {
    WorkRecord work{owner.pool, owner.worker, event.name, event.start_ns, event.end_ns(), kNoValue,
                    kNoValue,   kNoValue,     -1};
    const auto payload = batch.Payload(event, work_);
    if (payload.size() >= kWorkFields) {
      work.step = payload[kWorkStep];
      work.micro_batch = payload[kWorkMicroBatch];
      work.scope = payload[kWorkScope];
      if (payload[kWorkCpuNs] != kNoValue) work.cpu_ns = static_cast<int64_t>(payload[kWorkCpuNs]);
    }
    work.mapped = IsMapped(batch, event);
    if (work.mapped && work.step == kNoValue) work.step = StepAt(event.start_ns);
    records.work.push_back(work);
  }

  bool IsMapped(const EventBatch& batch, const Event& event) const {
    return mapped_ != 0 && !batch.Payload(event, mapped_).empty();
  }

  // The step that was being made then; kNoValue: none ended after.
  uint64_t StepAt(int64_t ns) {
    const auto step =
        std::lower_bound(run_.steps.begin(), run_.steps.end(), ns,
                         [](const StepRow& row, int64_t at) { return row.end_ns < at; });
    records.inferred = true;
    return step == run_.steps.end() ? kNoValue : static_cast<uint64_t>(step->step);
  }

  // Of mapped work of the pools that do not update, which says no micro-batch: its place among the
  // worker's operations of the name in the step.
  void CountMicroBatches() {
    std::map<std::tuple<int, int, uint64_t, uint32_t>, uint64_t> counts;
    for (WorkRecord& work : records.work) {
      const std::string& role = run_.pools[static_cast<size_t>(work.pool)].role;
      if (!work.mapped || work.micro_batch != kNoValue || role == "update" || role == "trainer") {
        continue;
      }
      work.micro_batch = counts[{work.pool, work.worker, work.step, work.name}]++;
      records.inferred = true;
    }
  }

  void TakeWait(const EventBatch& batch, const Event& event, Owner owner) {
    const auto link = links_.find(event.name);
    const auto payload = batch.Payload(event, wait_);
    if (link == links_.end() || payload.size() < kWaitFields) return;
    records.waits.push_back({owner.pool, owner.worker, link->second, event.start_ns, event.end_ns(),
                             payload[kWaitSource], payload[kWaitSequence]});
  }

  void TakeTransfer(const EventBatch& batch, const Event& event, bool early) {
    const auto link = links_.find(event.name);
    const auto payload = batch.Payload(event, transfer_);
    if (link == links_.end() || payload.size() < kTransferFields) return;
    const auto marked = static_cast<Stage>(payload[kTransferStage]);
    const bool mapped = IsMapped(batch, event);
    if (marked > Stage::kReceive || (early && (mapped || payload[kTransferStep] != kNoValue)))
      return;
    TransferRecord& record =
        transfers_[{link->second, payload[kTransferSource], payload[kTransferDestination],
                    payload[kTransferSequence]}];
    record.link = link->second;
    record.source = static_cast<uint32_t>(payload[kTransferSource]);
    record.destination = static_cast<uint32_t>(payload[kTransferDestination]);
    record.sequence = payload[kTransferSequence];
    record.step = payload[kTransferStep];
    if (mapped && record.step == kNoValue) record.step = StepAt(event.start_ns);
    record.micro_batch = payload[kTransferMicroBatch];
    record.codec = static_cast<uint32_t>(payload[kTransferCodec]);
    if (marked != Stage::kReceive) {  // bytes are counted at the sender
      record.raw_bytes = static_cast<int64_t>(payload[kTransferRawBytes]);
      record.wire_bytes = static_cast<int64_t>(payload[kTransferWireBytes]);
    }
    StageTime& stage = record.stages[static_cast<size_t>(LifeStage(marked))];
    const bool other_end = LifeStage(marked) == Stage::kWire && stage.seen();
    stage = {other_end ? std::min(stage.start_ns, event.start_ns) : event.start_ns,
             other_end ? std::max(stage.end_ns, event.end_ns()) : event.end_ns()};
  }

  const Store& store_;
  const RunData& run_;
  uint32_t domain_ = 0, transfer_ = 0, work_ = 0, wait_ = 0, mapped_ = 0;
  std::unordered_map<uint32_t, int> links_;
  std::unordered_map<int64_t, Owner> owners_;
  std::map<std::tuple<int, uint64_t, uint64_t, uint64_t>, TransferRecord> transfers_;
};

}  // namespace

std::string EventRecords::Name(uint32_t id) const {
  for (const auto& [known, text] : names) {
    if (known == id) return text;
  }
  return "";
}

Result<EventRecords> ReadEventRecords(const Store& store, const RunData& run,
                                      const AnalysedSpan& span, int64_t budget) {
  Reader reader(store, run);
  if (Status status = reader.Prepare(); !status) return status.error();
  Result<std::vector<TrackRow>> tracks = store.Tracks(run.run.run_id);
  if (!tracks) return tracks.error();
  std::vector<WantedChunk> chunks;
  for (size_t t = 0; t < tracks->size(); ++t) {
    if ((*tracks)[t].kind != static_cast<uint32_t>(EventKind::kRange)) continue;
    Result<std::vector<ChunkRow>> rows = store.Chunks((*tracks)[t].track_id, {});
    if (!rows) return rows.error();
    for (size_t i = 0; i < rows->size(); ++i) {
      const ChunkRow& row = (*rows)[i];
      const bool inside = row.last_ns >= span.begin_ns && row.first_ns <= span.end_ns;
      if (inside || i == 0) chunks.push_back({t, row.chunk_index, row.last_ns, row.events, i == 0});
    }
  }
  std::sort(chunks.begin(), chunks.end(),
            [](const WantedChunk& a, const WantedChunk& b) { return a.last_ns > b.last_ns; });
  int64_t begin_ns = span.begin_ns;
  int64_t events = 0;
  for (const WantedChunk& chunk : chunks) {
    events += chunk.events;
    if (events > budget) {
      begin_ns = std::max(begin_ns, chunk.last_ns);
      break;
    }
  }
  int64_t firsts = 0;
  for (const WantedChunk& chunk : chunks) {
    const bool inside = chunk.last_ns >= begin_ns;
    if (!inside) {
      if (!chunk.first) continue;
      firsts += chunk.events;
      if (firsts > budget) continue;
    }
    const TrackRow& track = (*tracks)[chunk.track];
    Result<EventBatch> batch = store.ReadChunk(track.track_id, chunk.chunk_index);
    if (!batch) return batch.error();
    reader.Take(track, *batch, begin_ns, span.end_ns);
  }
  if (Status status = reader.Finish(); !status) return status.error();
  reader.records.begin_ns = begin_ns;
  return std::move(reader.records);
}

}  // namespace poolscope
