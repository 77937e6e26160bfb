#include "viewer/event_details.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "viewer/format.h"

namespace poolscope {
namespace {

constexpr int64_t kMessageReachNs = 30'000'000'000;  // a message's stages lie this close together
constexpr size_t kMaxMessageChunks = 6;              // read per track and side in search of them

const char* StageName(uint64_t stage) {
  static constexpr const char* kNames[] = {"queued", "encode", "wire",
                                           "decode", "apply",  "receive"};
  return stage < std::size(kNames) ? kNames[stage] : "unknown";
}

std::string KindOf(const EventLook& look) {
  switch (look.category) {
    case static_cast<uint32_t>(Category::kWork):
      return "work";
    case static_cast<uint32_t>(Category::kTransfer):
      return fmt::format("transfer, {} stage", StageName(look.stage));
    case static_cast<uint32_t>(Category::kWaitLink):
      return "wait for link";
    case static_cast<uint32_t>(Category::kBlockedLink):
      return "blocked: link's buffer is full";
    case static_cast<uint32_t>(Category::kWaitCredit):
      return "wait for credit (lag bound)";
    case static_cast<uint32_t>(Category::kWaitPeer):
      return "wait for peers of its pool";
    case static_cast<uint32_t>(Category::kHost):
      return "host work for the device";
    case static_cast<uint32_t>(Category::kInput):
      return "data loading";
    case static_cast<uint32_t>(Category::kOtherWork):
      return "other work";
    case static_cast<uint32_t>(Category::kWaitDevice):
      return "wait for a shared device";
    case static_cast<uint32_t>(Category::kPhase):
      return "phase";
    case kDrawnCopy:
      return "copy by a device";
    case kDrawnSynchronization:
      return "synchronization";
    case kDrawnOverhead:
      return "overhead of CUDA";
    default:
      return "range";
  }
}

std::string FieldText(const Store& store, const Store::SchemaField& field, uint64_t value,
                      const std::string& schema) {
  if (field.type == 's') {
    if (value == 0 || value == kNoValue) return "none";
    Result<std::string> text = store.String(static_cast<uint32_t>(value));
    return text ? *text : std::string("?");
  }
  if (value == kNoValue && field.type != 'd') return "-";
  if (field.type == 'd') return fmt::format("{:.6g}", std::bit_cast<double>(value));
  if (field.type == 'i') return fmt::format("{}", static_cast<int64_t>(value));
  constexpr uint64_t kCounted = uint64_t{1} << 62;  // from here on the collector counts messages
  if (field.name == "sequence" && value >= kCounted) return fmt::format("{}", value - kCounted);
  if (field.name == "stage" && schema == kTransferSchema) return StageName(value);
  if (field.name == "scope" && schema == kWorkSchema) {
    return value == 0 ? "per micro-batch" : value == 1 ? "per shard" : "fixed";
  }
  if (field.name.ends_with("_bytes")) return FormatBytes(static_cast<double>(value));
  if (field.name.ends_with("_ns")) return FormatDuration(static_cast<double>(value));
  return fmt::format("{}", value);
}

std::string Readable(std::string field) {
  if (field.ends_with("_ns")) field.resize(field.size() - 3);
  std::replace(field.begin(), field.end(), '_', ' ');
  return field == "micro batch" ? "micro-batch" : field;
}

std::string NameOf(const ThreadRow& thread) {
  return thread.name.empty() ? fmt::format("thread {}", thread.tid) : thread.name;
}

std::string PlaceOf(const ThreadRow* thread) {
  if (thread == nullptr) return {};
  if (thread->pool.empty()) return NameOf(*thread);
  return fmt::format("{} {}", thread->pool, thread->worker_index);
}

int LaneOfTrack(const Catalog& catalog, int64_t track_id, LaneKind kind) {
  for (size_t i = 0; i < catalog.lanes.size(); ++i) {
    const Lane& lane = catalog.lanes[i];
    if (lane.kind != kind) continue;
    if (std::find(lane.tracks.begin(), lane.tracks.end(), track_id) != lane.tracks.end()) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

// Puts an event's payload into words, group by group.
class Teller {
 public:
  Teller(const Store& store, const Catalog& catalog, const ThreadRow* thread, const Event& event,
         EventDetails& details)
      : store_(store), catalog_(catalog), thread_(thread), event_(event), details_(details) {}

  Status Tell(const EventBatch& batch) {
    size_t at = event_.payload_offset;
    const size_t end = std::min<size_t>(at + event_.payload_words, batch.words.size());
    while (at < end) {
      const size_t count = batch.words[at] >> 32;
      if (count > end - at - 1) break;
      const Status status =
          TellGroup(static_cast<uint32_t>(batch.words[at]), {batch.words.data() + at + 1, count});
      if (!status) return status;
      at += 1 + count;
    }
    return {};
  }

 private:
  Status TellGroup(uint32_t schema, std::span<const uint64_t> values) {
    Result<std::vector<Store::SchemaField>> fields = store_.Schema(schema);
    if (!fields) return fields.error();
    Result<std::string> name = store_.String(schema);
    if (!name) return name.error();
    if (fields->size() == 1 && (*fields)[0].type < 'a') {  // an array
      Store::SchemaField field = (*fields)[0];
      field.type = static_cast<char>(field.type - 'A' + 'a');
      std::string text;
      for (size_t i = 0; i < values.size(); ++i) {
        text += (i == 0 ? "" : ", ") + FieldText(store_, field, values[i], *name);
      }
      Say(Readable(field.name), text);
      return {};
    }
    if (schema == catalog_.words.mapped && values.size() == 2) {
      Result<std::string> domain = store_.String(static_cast<uint32_t>(values[0]));
      Result<std::string> origin = store_.String(static_cast<uint32_t>(values[1]));
      if (!domain || !origin) return domain ? origin.error() : domain.error();
      Say("made of", domain->empty() ? *origin : *domain + ": " + *origin);
      return {};
    }
    const bool launched = name->starts_with("cuda.") || schema == catalog_.words.nccl;
    for (size_t i = 0; i < values.size() && i < fields->size(); ++i) {
      const Store::SchemaField& field = (*fields)[i];
      if (launched && TellLaunch(field.name, values[i])) continue;
      if (schema == catalog_.words.colour) {
        Say("colour", fmt::format("#{:06x}", values[i] & 0xffffff));
      } else {
        Say(Readable(field.name), FieldText(store_, field, values[i], *name));
      }
    }
    return {};
  }

  // Fields that say who launched it, and when; true where there is no more to say of the field.
  bool TellLaunch(const std::string& field, uint64_t value) {
    const bool by = field == "launch_tid" || field == "tid";
    if (by && thread_ != nullptr) {
      const ThreadRow* launcher =
          value == 0 ? nullptr
                     : catalog_.FindThread(thread_->session_id, static_cast<int64_t>(value));
      Say("launched by", launcher != nullptr ? NameOf(*launcher)
                         : value == 0        ? "not known"
                                             : fmt::format("thread {}", value));
      if (launcher != nullptr) launch_lane_ = LaneOfThread(*launcher);
      return true;
    }
    if (field == "queued_ns" || field == "called_ns") {
      const std::optional<int64_t> at = catalog_.FromMonotonic(value, event_.start_ns);
      if (!at) return true;
      details_.launch = EventDetails::Launch{launch_lane_, *at};
      Say("launched", FormatDuration(static_cast<double>(event_.start_ns - *at)) + " before");
      return true;
    }
    if (field == "communicator") {
      Say(field, fmt::format("{:016x}", value));
      return true;
    }
    const bool graph = field == "graph" || field == "graph_node";
    return field == "range_open_id" || field == "open_id" || (graph && value == 0);
  }

  int LaneOfThread(const ThreadRow& thread) const {
    for (const TrackRow& track : catalog_.tracks) {
      if (track.thread_id != thread.thread_id) continue;
      const int lane = LaneOfTrack(catalog_, track.track_id, LaneKind::kRanges);
      if (lane >= 0) return lane;
    }
    return -1;
  }

  void Say(const std::string& what, const std::string& text) {
    details_.fields.emplace_back(what, text);
  }

  const Store& store_;
  const Catalog& catalog_;
  const ThreadRow* thread_;
  const Event& event_;
  EventDetails& details_;
  int launch_lane_ = -1;
};

int WireLane(const Catalog& catalog, const std::string& link) {
  for (size_t i = 0; i < catalog.lanes.size(); ++i) {
    const Lane& lane = catalog.lanes[i];
    if (lane.kind == LaneKind::kWire && lane.subject == link) return static_cast<int>(i);
  }
  return -1;
}

// The first lane of the worker's threads.
int LaneOfWorker(const Catalog& catalog, const std::string& pool, uint64_t worker) {
  for (size_t i = 0; i < catalog.lanes.size(); ++i) {
    const Lane& lane = catalog.lanes[i];
    if (lane.kind == LaneKind::kRanges && lane.subject == pool &&
        lane.worker == static_cast<int64_t>(worker)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

// What the program told beside a payload with a schema: domain, category and a plain value.
Status AddNames(const Store& store, const ThreadRow* thread, const Event& event,
                const Catalog& catalog, EventDetails& details) {
  const bool annotated = event.domain == catalog.words.poolscope_domain;
  Result<std::string> domain = store.String(event.domain);
  if (!domain) return domain.error();
  if (!annotated && !domain->empty()) details.fields.emplace_back("domain", *domain);
  if (!annotated && event.category != 0 && thread != nullptr) {
    Result<std::vector<ProcessFactRow>> facts = store.ProcessFacts(thread->session_id);
    if (!facts) return facts.error();
    const std::string key = fmt::format("category.{}.{}", event.category, *domain);
    std::string name = fmt::format("{}", event.category);
    for (const ProcessFactRow& fact : *facts) {
      if (fact.key == key) name = fact.value;
    }
    details.fields.emplace_back("category", name);
  }
  if (event.value != 0) {
    details.fields.emplace_back("value",
                                (event.flags & kEventFloat) != 0
                                    ? fmt::format("{:.6g}", std::bit_cast<double>(event.value))
                                    : fmt::format("{}", static_cast<int64_t>(event.value)));
  }
  return {};
}

// All stages of the message (link, source, sequence), from every range track near `event`.
Status AddStages(const Store& store, ChunkCache& cache, const Catalog& catalog, const Event& event,
                 uint64_t source, uint64_t sequence, EventDetails& details) {
  const LinkRow* link = catalog.FindLink(details.name);
  uint64_t destination = kNoValue;
  bool arrived = false;  // a stage at the receiver was seen
  const Store::Span near{event.start_ns - kMessageReachNs, event.end_ns() + kMessageReachNs};
  for (const TrackRow& track : catalog.tracks) {
    if (track.kind != static_cast<uint32_t>(EventKind::kRange)) continue;
    Result<std::vector<ChunkRow>> chunks = store.Chunks(track.track_id, near);
    if (!chunks) return chunks.error();
    std::sort(chunks->begin(), chunks->end(), [&](const ChunkRow& a, const ChunkRow& b) {
      const auto distance = [&](const ChunkRow& chunk) {
        return std::max(
            {chunk.first_ns - event.end_ns(), event.start_ns - chunk.last_ns, int64_t{0}});
      };
      return distance(a) < distance(b);
    });
    if (chunks->size() > kMaxMessageChunks) chunks->resize(kMaxMessageChunks);
    for (const ChunkRow& chunk : *chunks) {
      Result<std::shared_ptr<const EventBatch>> batch = cache.Read(store, chunk);
      if (!batch) return batch.error();
      for (const Event& other : (*batch)->events) {
        if (other.domain != catalog.words.poolscope_domain || other.name != event.name) continue;
        if (other.category != static_cast<uint32_t>(Category::kTransfer)) continue;
        const auto payload = (*batch)->Payload(other, catalog.words.transfer);
        if (payload.size() <= kTransferSequence) continue;
        if (payload[kTransferSource] != source || payload[kTransferSequence] != sequence) continue;
        MessageStage stage{payload[kTransferStage], other.start_ns, other.end_ns()};
        const bool wire = LifeStage(static_cast<Stage>(stage.stage)) == Stage::kWire;
        stage.lane = LaneOfTrack(catalog, track.track_id, LaneKind::kRanges);
        const ThreadRow* thread = catalog.ThreadOf(track.track_id);
        if (wire && link != nullptr && thread != nullptr && thread->pool == link->from_pool) {
          details.sender_lane = stage.lane;
        }
        if (wire || stage.lane < 0) stage.lane = WireLane(catalog, details.name);
        if (payload[kTransferDestination] != kNoValue) destination = payload[kTransferDestination];
        arrived = arrived || stage.stage == static_cast<uint64_t>(Stage::kReceive) ||
                  stage.stage == static_cast<uint64_t>(Stage::kDecode) ||
                  stage.stage == static_cast<uint64_t>(Stage::kApply);
        stage.place = PlaceOf(thread);
        details.stages.push_back(std::move(stage));
      }
    }
  }
  if (link != nullptr && details.sender_lane < 0) {
    details.sender_lane = LaneOfWorker(catalog, link->from_pool, source);
  }
  if (link != nullptr && !arrived && destination != kNoValue) {
    details.receiver_lane = LaneOfWorker(catalog, link->to_pool, destination);
  }
  std::sort(details.stages.begin(), details.stages.end(),
            [](const MessageStage& a, const MessageStage& b) {
              return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.stage < b.stage;
            });
  return {};
}

}  // namespace

Result<std::optional<EventDetails>> FindDetails(const Store& store, ChunkCache& cache,
                                                const Catalog& catalog, const EventKey& key) {
  if (key.lane < 0 || static_cast<size_t>(key.lane) >= catalog.lanes.size()) {
    return std::optional<EventDetails>();
  }
  Meanings meanings(store, catalog.words);
  for (const int64_t track : catalog.lanes[static_cast<size_t>(key.lane)].tracks) {
    Result<std::vector<ChunkRow>> chunks = store.Chunks(track, {key.end_ns, key.end_ns});
    if (!chunks) return chunks.error();
    for (const ChunkRow& chunk : *chunks) {
      Result<std::shared_ptr<const EventBatch>> batch = cache.Read(store, chunk);
      if (!batch) return batch.error();
      for (const Event& event : (*batch)->events) {
        if (event.start_ns != key.begin_ns || event.end_ns() != key.end_ns) continue;
        if (event.name != key.name) continue;
        EventDetails details;
        Result<std::string> name = store.String(event.name);
        if (!name) return name.error();
        details.name = *name;
        if (const auto symbol = catalog.symbols.find(event.name); symbol != catalog.symbols.end()) {
          details.fields.emplace_back("mangled", symbol->second);
        }
        const ThreadRow* thread = catalog.ThreadOf(track);
        details.place = thread == nullptr ? "" : NameOf(*thread);
        const ThreadRow* launcher =
            thread == nullptr ? nullptr : catalog.LauncherOf(*thread, event, **batch);
        const ThreadRow* owner = launcher != nullptr ? launcher : thread;
        if (owner != nullptr && !owner->pool.empty()) {
          details.fields.emplace_back("worker", PlaceOf(owner));
        }
        details.begin_ns = event.start_ns;
        details.end_ns = event.end_ns();
        const EventLook look = meanings.Look(event, **batch);
        const bool kernel = !(*batch)->Payload(event, catalog.words.kernel).empty();
        details.kind = kernel ? "kernel" : KindOf(look) + (look.inferred ? ", inferred" : "");
        const auto transfer = (*batch)->Payload(event, catalog.words.transfer);
        Status status = AddNames(store, thread, event, catalog, details);
        if (!status) return status.error();
        status = Teller(store, catalog, thread, event, details).Tell(**batch);
        uint64_t source = kNoValue;
        uint64_t sequence = kNoValue;
        if (transfer.size() > kTransferSequence) {
          source = transfer[kTransferSource];
          sequence = transfer[kTransferSequence];
        }
        const auto wait = (*batch)->Payload(event, catalog.words.wait);
        if (wait.size() > kWaitSequence) {
          source = wait[kWaitSource];
          sequence = wait[kWaitSequence];
        }
        if (status && sequence != kNoValue) {
          status = AddStages(store, cache, catalog, event, source, sequence, details);
        }
        if (!status) return status.error();
        return std::optional<EventDetails>(std::move(details));
      }
    }
  }
  return std::optional<EventDetails>();
}

}  // namespace poolscope
