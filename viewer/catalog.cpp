#include "viewer/catalog.h"

#include <algorithm>
#include <map>

namespace poolscope {
namespace {

template <typename T>
Status Take(Result<T>&& read, T& into) {
  if (!read) return read.error();
  into = std::move(*read);
  return {};
}

}  // namespace

const LinkRow* Catalog::FindLink(const std::string& link) const {
  const auto found = std::find_if(links.begin(), links.end(),
                                  [&](const LinkRow& row) { return row.link == link; });
  return found == links.end() ? nullptr : &*found;
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
  if (status) status = Take(store.EventLosses(run_id), catalog->losses);
  if (status) status = Take(store.Tracks(run_id), catalog->tracks);
  if (status) status = Take(store.FindString(kTransferSchema), catalog->transfer_schema);
  if (status) status = Take(store.FindString(kWorkSchema), catalog->work_schema);
  if (status) status = Take(store.FindString(kWaitSchema), catalog->wait_schema);
  if (status) status = Take(store.FindString(kStepSchema), catalog->step_schema);
  if (!status) return status.error();

  std::map<int64_t, uint16_t> known_rows;
  if (before != nullptr) {
    for (const Lane& lane : before->lanes) {
      if (lane.kind == LaneKind::kRanges) known_rows[lane.tracks.front()] = lane.rows;
    }
  }
  int64_t begin = INT64_MAX;
  int64_t end = INT64_MIN;
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
  catalog->links = std::move(source.links);
  catalog->threads = std::move(source.threads);
  return std::shared_ptr<const Catalog>(std::move(catalog));
}

}  // namespace poolscope
