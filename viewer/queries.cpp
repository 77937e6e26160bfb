#include "viewer/queries.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

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

std::string KindOf(const Event& event, uint64_t stage) {
  switch (static_cast<Category>(event.category)) {
    case Category::kWork:
      return "work";
    case Category::kTransfer:
      return fmt::format("transfer, {} stage", StageName(stage));
    case Category::kWaitLink:
      return "wait for link";
    case Category::kBlockedLink:
      return "blocked: link's buffer is full";
    case Category::kWaitCredit:
      return "wait for credit (lag bound)";
    case Category::kWaitPeer:
      return "wait for peers of its pool";
    case Category::kHost:
      return "host work for the device";
    case Category::kInput:
      return "data loading";
    case Category::kOtherWork:
      return "other work";
    case Category::kWaitDevice:
      return "wait for a shared device";
    case Category::kPhase:
      return "phase";
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

Status AddFields(const Store& store, const Event& event, const EventBatch& batch,
                 EventDetails& details) {
  size_t at = event.payload_offset;
  const size_t end = std::min<size_t>(at + event.payload_words, batch.words.size());
  while (at < end) {
    const auto schema = static_cast<uint32_t>(batch.words[at]);
    const size_t count = batch.words[at] >> 32;
    if (count > end - at - 1) break;
    Result<std::vector<Store::SchemaField>> fields = store.Schema(schema);
    if (!fields) return fields.error();
    Result<std::string> name = store.String(schema);
    if (!name) return name.error();
    if (fields->size() == 1 && (*fields)[0].type < 'a') {  // an array
      Store::SchemaField field = (*fields)[0];
      field.type = static_cast<char>(field.type - 'A' + 'a');
      std::string text;
      for (size_t i = 0; i < count; ++i) {
        text += (i == 0 ? "" : ", ") + FieldText(store, field, batch.words[at + 1 + i], *name);
      }
      details.fields.emplace_back(Readable(field.name), text);
      at += 1 + count;
      continue;
    }
    for (size_t i = 0; i < count && i < fields->size(); ++i) {
      const Store::SchemaField& field = (*fields)[i];
      details.fields.emplace_back(Readable(field.name),
                                  FieldText(store, field, batch.words[at + 1 + i], *name));
    }
    at += 1 + count;
  }
  return {};
}

std::string PlaceOf(const Catalog& catalog, int64_t track_id) {
  for (const TrackRow& track : catalog.tracks) {
    if (track.track_id != track_id) continue;
    for (const ThreadRow& thread : catalog.threads) {
      if (thread.thread_id != track.thread_id) continue;
      if (!thread.pool.empty()) return fmt::format("{} {}", thread.pool, thread.worker_index);
      return thread.name.empty() ? fmt::format("thread {}", thread.tid) : thread.name;
    }
  }
  return {};
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

// All stages of the message (link, source, sequence), from every range track near `event`.
Status AddStages(const Store& store, ChunkCache& cache, const Catalog& catalog, const Event& event,
                 uint64_t source, uint64_t sequence, EventDetails& details) {
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
        if (other.category != static_cast<uint32_t>(Category::kTransfer)) continue;
        if (other.name != event.name) continue;
        const auto payload = (*batch)->Payload(other, catalog.words.transfer);
        if (payload.size() <= kTransferSequence) continue;
        if (payload[kTransferSource] != source || payload[kTransferSequence] != sequence) continue;
        MessageStage stage{payload[kTransferStage], other.start_ns, other.end_ns()};
        const bool wire = LifeStage(static_cast<Stage>(stage.stage)) == Stage::kWire;
        stage.lane = LaneOfTrack(catalog, track.track_id, LaneKind::kRanges);
        if (wire || stage.lane < 0) {
          stage.lane = LaneOfTrack(catalog, track.track_id, LaneKind::kWire);
        }
        stage.place = PlaceOf(catalog, track.track_id);
        details.stages.push_back(std::move(stage));
      }
    }
  }
  if (const LinkRow* link = catalog.FindLink(details.name); link != nullptr) {
    for (size_t i = 0; i < catalog.lanes.size(); ++i) {
      const Lane& lane = catalog.lanes[i];
      if (lane.kind == LaneKind::kRanges && lane.subject == link->from_pool &&
          lane.worker == static_cast<int64_t>(source)) {
        details.sender_lane = static_cast<int>(i);
      }
    }
  }
  std::sort(details.stages.begin(), details.stages.end(),
            [](const MessageStage& a, const MessageStage& b) {
              return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.stage < b.stage;
            });
  return {};
}

}  // namespace

bool NameMatches(const std::string& name, const std::string& text) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::search(name.begin(), name.end(), text.begin(), text.end(),
                     [&](char a, char b) { return lower(a) == lower(b); }) != name.end();
}

Result<std::optional<EventDetails>> FindDetails(const Store& store, ChunkCache& cache,
                                                const Catalog& catalog, const EventKey& key) {
  if (key.lane < 0 || static_cast<size_t>(key.lane) >= catalog.lanes.size()) {
    return std::optional<EventDetails>();
  }
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
        details.place = PlaceOf(catalog, track);
        details.begin_ns = event.start_ns;
        details.end_ns = event.end_ns();
        details.category = event.category;
        const auto transfer = (*batch)->Payload(event, catalog.words.transfer);
        details.kind = KindOf(event, transfer.empty() ? kNoValue : transfer[kTransferStage]);
        Status status = AddFields(store, event, **batch, details);
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

Result<std::vector<NameStatistics>> CountNames(const Store& store, ChunkCache& cache,
                                               const Catalog& catalog, Store::Span span) {
  std::map<std::pair<uint32_t, uint32_t>, NameStatistics> totals;
  const auto add = [&](uint32_t name, uint32_t category, int64_t events, int64_t ns) {
    NameStatistics& total = totals[{category, name}];
    total.name_id = name;
    total.category = category;
    total.events += events;
    total.total_ns += ns;
  };
  for (const TrackRow& track : catalog.tracks) {
    if (track.kind != static_cast<uint32_t>(EventKind::kRange)) continue;
    Result<std::vector<Store::NameTotal>> names = store.ChunkNames(track.track_id, span);
    if (!names) return names.error();
    for (const Store::NameTotal& name : *names) {
      add(name.name, name.category, name.events, name.total_ns);
    }
    // Of chunks that reach over an edge, take off what lies beyond it.
    Result<std::vector<ChunkRow>> chunks = store.Chunks(track.track_id, span);
    if (!chunks) return chunks.error();
    for (const ChunkRow& chunk : *chunks) {
      if (chunk.first_ns >= span.begin_ns && chunk.last_ns <= span.end_ns) continue;
      Result<std::shared_ptr<const EventBatch>> batch = cache.Read(store, chunk);
      if (!batch) return batch.error();
      for (const Event& event : (*batch)->events) {
        if (event.end_ns() < span.begin_ns || event.start_ns > span.end_ns) {
          add(event.name, event.category, -1, -event.duration_ns);
        }
      }
    }
  }
  std::vector<NameStatistics> out;
  for (auto& [key, total] : totals) {
    if (total.events <= 0) continue;
    Result<std::string> name = store.String(total.name_id);
    if (!name) return name.error();
    total.name = *name;
    out.push_back(std::move(total));
  }
  std::sort(out.begin(), out.end(), [](const NameStatistics& a, const NameStatistics& b) {
    return a.total_ns > b.total_ns;
  });
  return out;
}

Result<std::optional<EventKey>> FindNext(const Store& store, ChunkCache& cache,
                                         const Catalog& catalog, const std::string& text,
                                         int64_t from_ns, bool forward) {
  std::optional<EventKey> best;
  std::map<uint32_t, bool> matches;
  const auto match = [&](uint32_t id) {
    const auto known = matches.find(id);
    if (known != matches.end()) return known->second;
    Result<std::string> name = store.String(id);
    return matches[id] = name.ok() && NameMatches(*name, text);
  };
  for (size_t i = 0; i < catalog.lanes.size(); ++i) {
    const Lane& lane = catalog.lanes[i];
    if (lane.kind != LaneKind::kRanges && lane.kind != LaneKind::kWire) continue;
    for (const int64_t track : lane.tracks) {
      Store::Span span;
      (forward ? span.begin_ns : span.end_ns) = from_ns;
      if (best) (forward ? span.end_ns : span.begin_ns) = best->begin_ns;
      Result<std::vector<Store::NameTotal>> names = store.ChunkNames(track, span);
      if (!names) return names.error();
      if (std::none_of(names->begin(), names->end(),
                       [&](const Store::NameTotal& total) { return match(total.name); })) {
        continue;
      }
      Result<std::vector<ChunkRow>> chunks = store.Chunks(track, span);
      if (!chunks) return chunks.error();
      if (!forward) std::reverse(chunks->begin(), chunks->end());
      bool found = false;
      for (const ChunkRow& chunk : *chunks) {
        if (found) break;
        Result<std::vector<Store::NameTotal>> here =
            store.ChunkNames(track, {chunk.first_ns, chunk.last_ns});
        if (!here) return here.error();
        if (std::none_of(here->begin(), here->end(),
                         [&](const Store::NameTotal& total) { return match(total.name); })) {
          continue;
        }
        Result<std::shared_ptr<const EventBatch>> batch = cache.Read(store, chunk);
        if (!batch) return batch.error();
        for (const Event& event : (*batch)->events) {
          if (forward ? event.start_ns <= from_ns : event.start_ns >= from_ns) continue;
          if (best &&
              (forward ? event.start_ns >= best->begin_ns : event.start_ns <= best->begin_ns)) {
            continue;
          }
          if (!match(event.name)) continue;
          if (lane.kind == LaneKind::kWire) {  // of a link's stages it shows this one
            const auto payload = (*batch)->Payload(event, catalog.words.transfer);
            if (payload.empty() ||
                LifeStage(static_cast<Stage>(payload[kTransferStage])) != Stage::kWire) {
              continue;
            }
          }
          best = EventKey{static_cast<int>(i), event.start_ns, event.end_ns(), event.name};
          found = true;
        }
      }
    }
  }
  return best;
}

}  // namespace poolscope
