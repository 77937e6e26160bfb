#include "viewer/queries.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace poolscope {

bool NameMatches(const std::string& name, const std::string& text) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::search(name.begin(), name.end(), text.begin(), text.end(),
                     [&](char a, char b) { return lower(a) == lower(b); }) != name.end();
}

Result<std::vector<NameStatistics>> CountNames(const Store& store, ChunkCache& cache,
                                               const Catalog& catalog, Store::Span span) {
  std::map<std::pair<uint32_t, uint32_t>, NameStatistics> totals;  // by name and drawn category
  Meanings meanings(store, catalog.words);
  for (const TrackRow& track : catalog.tracks) {
    if (track.kind != static_cast<uint32_t>(EventKind::kRange)) continue;
    Result<std::vector<ChunkRow>> chunks = store.Chunks(track.track_id, span);
    if (!chunks) return chunks.error();
    if (chunks->empty()) continue;
    Result<std::shared_ptr<const EventBatch>> sample = cache.Read(store, chunks->front());
    if (!sample) return sample.error();
    const LooksByName looks = meanings.LooksOf(**sample);
    const auto add = [&](uint32_t name, int64_t events, int64_t ns) {
      const auto look = looks.find(name);
      const EventLook drawn = look == looks.end() ? EventLook() : look->second;
      NameStatistics& total = totals[{name, drawn.category}];
      total.name_id = name;
      total.look = drawn;
      total.events += events;
      total.total_ns += ns;
    };
    Result<std::vector<Store::NameTotal>> names = store.ChunkNames(track.track_id, span);
    if (!names) return names.error();
    for (const Store::NameTotal& name : *names) add(name.name, name.events, name.total_ns);
    // Of chunks that reach over an edge, take off what lies beyond it.
    for (const ChunkRow& chunk : *chunks) {
      if (chunk.first_ns >= span.begin_ns && chunk.last_ns <= span.end_ns) continue;
      Result<std::shared_ptr<const EventBatch>> batch = cache.Read(store, chunk);
      if (!batch) return batch.error();
      for (const Event& event : (*batch)->events) {
        if (event.end_ns() < span.begin_ns || event.start_ns > span.end_ns) {
          add(event.name, -1, -event.duration_ns);
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
            if (event.domain != catalog.words.poolscope_domain || payload.empty() ||
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
