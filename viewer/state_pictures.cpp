// The part of PictureMaker that splits workers' time into states, as the collector's windows do.
#include <algorithm>
#include <set>

#include "viewer/picture.h"

namespace poolscope {
namespace {

bool IsWorkerOf(const ThreadRow& thread, const Lane& lane) {
  return thread.pool == lane.subject && thread.worker_index == lane.worker;
}

}  // namespace

Result<bool> PictureMaker::ReadStates(const Catalog& catalog, const Lane& lane, const Order& order,
                                      std::vector<StateSlice>& ranges) {
  std::set<uint32_t> sent;  // names of the links that the worker sends on
  for (const LinkRow& link : catalog.links) {
    if (link.from_pool != lane.subject) continue;
    Result<uint32_t> name = LinkName(link.link);
    if (!name) return name.error();
    sent.insert(*name);
  }
  const WorkerRow* worker = catalog.FindWorker(lane.subject, lane.worker);
  const bool has_device = worker != nullptr && worker->device != "cpu";
  std::set<std::pair<int64_t, uint32_t>> remade;  // begin and name of what a mapping took over
  const auto read = [&](int64_t track, const ThreadRow& thread) {
    const bool device = thread.tid >= kFirstLaneThread;
    const bool mapped = (thread.tid & kMappedTid) != 0;
    return ForEvents({track}, order, [&](const Event& event, const EventBatch& batch) {
      Doing doing{.category = meanings_.Of(event, batch)};
      // Start/end ranges decide no state: they may lie on any thread.
      if (doing.category == Category::kNone || (event.flags & kEventStartEnd) != 0) return;
      if (device && mapped) {
        const auto origin = batch.Payload(event, catalog.words.mapped);
        if (origin.size() > 1) remade.emplace(event.start_ns, static_cast<uint32_t>(origin[1]));
      }
      const ThreadRow* owner =
          device && !mapped ? catalog.LauncherOf(thread, event, batch) : nullptr;
      if (!IsWorkerOf(owner != nullptr ? *owner : thread, lane)) return;
      if (device && !mapped && remade.count({event.start_ns, event.name}) != 0) return;
      if (doing.category == Category::kTransfer) {
        const auto transfer = batch.Payload(event, catalog.words.transfer);
        doing.stage_known = !transfer.empty();
        if (doing.stage_known) doing.stage = static_cast<Stage>(transfer[kTransferStage]);
        doing.sends = sent.count(event.name) != 0;
      }
      doing.discarded = doing.category == Category::kWork &&
                        discards_->discards.Has(lane.subject, lane.worker, event,
                                                batch.Payload(event, catalog.words.work));
      doing.feeds_device = has_device && !device;
      const State state = StateOf(doing);
      if (state != State::kIdle) ranges.push_back({event.start_ns, event.end_ns(), state});
    });
  };
  for (const bool of_mapped : {true, false}) {
    for (const int64_t track : lane.tracks) {
      const ThreadRow* thread = catalog.ThreadOf(track);
      if (thread == nullptr || ((thread->tid & kMappedTid) != 0) != of_mapped) continue;
      Result<bool> decoded = read(track, *thread);
      if (!decoded || !*decoded || cancelled_) return decoded;
    }
  }
  return true;
}

Status PictureMaker::MakeStates(const Catalog& catalog, const Lane& lane, const Order& order,
                                LanePicture& picture) {
  std::vector<StateSlice> ranges;
  Result<bool> discards = ReadDiscards(catalog, order);
  if (!discards) return discards.error();
  if (cancelled_) return {};
  Result<bool> decoded = ReadStates(catalog, lane, order, ranges);
  if (!decoded) return decoded.error();
  if (cancelled_) return {};
  if (*decoded && *discards && !ranges.empty()) {
    for (const EventLossRow& loss : catalog.losses) {
      if (loss.place == "session" || loss.place == "collector") {
        ranges.push_back({loss.first_ns, loss.last_ns, State::kUnknown});
      }
    }
    const int64_t from = std::max(order.begin_ns, catalog.begin_ns);
    const int64_t to = std::min(order.end_ns, catalog.end_ns);
    picture.events = ranges.size();
    if (from < to) {
      picture.states = ColumnsOf(SplitStates(std::move(ranges), from, to), picture.column_ns * 2);
    }
    return {};
  }
  Result<std::vector<StateColumn>> columns =
      Windows(catalog, order).StatesOf(lane.subject, lane.worker);
  if (!columns) return columns.error();
  picture.states = std::move(*columns);
  return {};
}

}  // namespace poolscope
