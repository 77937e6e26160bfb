#include "viewer/catalog.h"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace poolscope {
namespace {

template <typename T>
Status Take(Result<T>&& read, T& into) {
  if (!read) return read.error();
  into = std::move(*read);
  return {};
}

// Ids of the streams that a mapping gave to a worker.
Result<std::set<int64_t>> GivenStreams(const Store& store, const std::vector<ThreadRow>& threads) {
  std::map<std::pair<std::string, std::string>, int64_t> streams;  // by session and key of the fact
  std::set<std::string> sessions;
  for (const ThreadRow& thread : threads) {
    if (thread.tid < kFirstLaneThread) continue;
    sessions.insert(thread.session_id);
    streams[{thread.session_id, "lane_mapped." + std::to_string(thread.tid)}] = thread.thread_id;
  }
  std::set<int64_t> given;
  for (const std::string& session : sessions) {
    const Result<std::vector<ProcessFactRow>> facts = store.ProcessFacts(session);
    if (!facts) return facts.error();
    for (const ProcessFactRow& fact : *facts) {
      const auto stream = streams.find({session, fact.key});
      if (stream != streams.end()) given.insert(stream->second);
    }
  }
  return given;
}

}  // namespace

const LinkRow* Catalog::FindLink(const std::string& link) const {
  const auto found = std::find_if(links.begin(), links.end(),
                                  [&](const LinkRow& row) { return row.link == link; });
  return found == links.end() ? nullptr : &*found;
}

const WorkerRow* Catalog::FindWorker(const std::string& pool, int64_t index) const {
  const auto found = std::find_if(workers.begin(), workers.end(), [&](const WorkerRow& row) {
    return row.pool == pool && row.worker_index == index;
  });
  return found == workers.end() ? nullptr : &*found;
}

const ThreadRow* Catalog::ThreadOf(int64_t track_id) const {
  const auto found = thread_of_track.find(track_id);
  return found == thread_of_track.end() ? nullptr : &threads[found->second];
}

const ThreadRow* Catalog::FindThread(const std::string& session_id, int64_t tid) const {
  const auto found = thread_of_tid.find({session_id, tid});
  return found == thread_of_tid.end() ? nullptr : &threads[found->second];
}

std::optional<int64_t> Catalog::FromMonotonic(uint64_t monotonic_ns, int64_t near_ns) const {
  constexpr int64_t kMostNs = 600'000'000'000;  // that a launch precedes what it launched
  std::optional<int64_t> best;
  if (monotonic_ns == 0 || monotonic_ns > static_cast<uint64_t>(INT64_MAX) / 2) return best;
  for (const int64_t offset_ns : clock_offsets_ns) {
    const int64_t at_ns = static_cast<int64_t>(monotonic_ns) + offset_ns;
    if (at_ns > near_ns || at_ns < near_ns - kMostNs) continue;
    if (!best || at_ns > *best) best = at_ns;
  }
  return best;
}

const ThreadRow* Catalog::LauncherOf(const ThreadRow& stream, const Event& event,
                                     const EventBatch& batch) const {
  if (given_streams.count(stream.thread_id) != 0) return nullptr;
  for (const uint32_t schema : {words.kernel, words.copy, words.memset}) {
    const auto fields = schema == 0 ? std::span<const uint64_t>() : batch.Payload(event, schema);
    if (fields.size() <= kDeviceLaunchTid) continue;
    const ThreadRow* launcher =
        FindThread(stream.session_id, static_cast<int64_t>(fields[kDeviceLaunchTid]));
    return launcher == nullptr || launcher->pool.empty() ? nullptr : launcher;
  }
  return nullptr;
}

Result<std::shared_ptr<const Catalog>> ReadCatalog(const Store& store, const std::string& run_id,
                                                   const Catalog* before) {
  auto catalog = std::make_shared<Catalog>();
  LaneSource source;
  Status status = Take(store.FindRun(run_id), catalog->run);
  if (status) status = Take(store.Pools(run_id), source.pools);
  if (status) status = Take(store.Workers(run_id), source.workers);
  if (status) status = Take(store.Links(run_id), source.links);
  if (status) status = Take(store.Threads(run_id), source.threads);
  if (status) status = Take(store.Processes(run_id), source.processes);
  if (status) status = Take(store.EventLosses(run_id), catalog->losses);
  if (status) status = Take(store.Tracks(run_id), catalog->tracks);
  if (status) status = Take(Vocabulary::Read(store), catalog->words);
  if (status) status = Take(GivenStreams(store, source.threads), catalog->given_streams);
  if (!status) return status.error();

  const Result<std::vector<SymbolRow>> symbols = store.Symbols();
  if (!symbols) return symbols.error();
  for (const SymbolRow& symbol : *symbols) catalog->symbols[symbol.string_id] = symbol.mangled;

  const Result<std::vector<SettingRow>> settings = store.Settings(run_id);
  if (!settings) return settings.error();
  for (const SettingRow& setting : *settings) {
    if (setting.key.rfind("clock.offset_ns.", 0) != 0) continue;
    catalog->clock_offsets_ns.push_back(std::strtoll(setting.value.c_str(), nullptr, 10));
  }

  std::map<int64_t, uint16_t> known_rows;
  if (before != nullptr) {
    for (const Lane& lane : before->lanes) {
      if (lane.kind != LaneKind::kRanges || catalog->run.ended) continue;
      known_rows[lane.tracks.front()] = lane.rows;
    }
  }
  int64_t begin = INT64_MAX;
  int64_t end = INT64_MIN;
  source.ended = catalog->run.ended;
  for (const TrackRow& row : catalog->tracks) {
    LaneSource::Track track{row, {}, 0};
    const auto known = known_rows.find(row.track_id);
    if (row.kind == static_cast<uint32_t>(EventKind::kCounter)) {
      status = Take(store.String(row.counter), track.counter);
      if (!status) return status.error();
    } else if (known != known_rows.end()) {
      track.max_depth = static_cast<uint16_t>(known->second - 1);
    } else if (row.kind == static_cast<uint32_t>(EventKind::kRange)) {
      Result<std::vector<ChunkRow>> chunks = store.Chunks(row.track_id, {});
      if (!chunks) return chunks.error();
      for (const ChunkRow& chunk : *chunks) {
        track.max_depth =
            std::max<uint16_t>(track.max_depth, static_cast<uint16_t>(chunk.max_depth));
        track.first_ns =
            &chunk == chunks->data() ? chunk.first_ns : std::min(track.first_ns, chunk.first_ns);
        track.last_ns = std::max(track.last_ns, chunk.last_ns);
        begin = std::min(begin, chunk.first_ns);
        end = std::max(end, chunk.last_ns);
      }
    }
    source.tracks.push_back(std::move(track));
  }
  catalog->begin_ns = catalog->run.start_ns > 0 ? catalog->run.start_ns : begin;
  catalog->end_ns = std::max(catalog->run.end_ns, end);
  if (before != nullptr) catalog->end_ns = std::max(catalog->end_ns, before->end_ns);
  if (catalog->begin_ns == INT64_MAX) catalog->begin_ns = 0;
  catalog->end_ns = std::max(catalog->end_ns, catalog->begin_ns + 1);
  catalog->lanes = MakeLanes(source);
  catalog->pools = std::move(source.pools);
  catalog->workers = std::move(source.workers);
  catalog->links = std::move(source.links);
  catalog->threads = std::move(source.threads);
  std::unordered_map<int64_t, size_t> place;  // by id
  for (size_t i = 0; i < catalog->threads.size(); ++i) {
    const ThreadRow& thread = catalog->threads[i];
    place[thread.thread_id] = i;
    catalog->thread_of_tid[{thread.session_id, thread.tid}] = i;
  }
  for (const TrackRow& track : catalog->tracks) {
    const auto found = place.find(track.thread_id);
    if (found != place.end()) catalog->thread_of_track[track.track_id] = found->second;
  }
  return std::shared_ptr<const Catalog>(std::move(catalog));
}

}  // namespace poolscope
