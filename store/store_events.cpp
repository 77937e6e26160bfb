#include <fmt/format.h>

#include <algorithm>

#include "store/chunk_summary.h"
#include "store/store.h"
#include "store/store_impl.h"

namespace poolscope {
namespace {

// Spans of events are closed: an instant at end_ns belongs.
bool Overlaps(const Event& event, Store::Span span) {
  return event.start_ns <= span.end_ns &&
         (event.end_ns() > span.begin_ns || event.start_ns >= span.begin_ns);
}

// Leaves the events that overlap the span; their payload words stay where they are.
void Keep(EventBatch& batch, Store::Span span) {
  std::erase_if(batch.events, [&](const Event& event) { return !Overlaps(event, span); });
}

// All reads in its life see one state of the store, unless they are in a transaction anyway.
class Snapshot {
 public:
  explicit Snapshot(Database& db) : db_(db), own_(sqlite3_get_autocommit(db.get()) != 0) {
    if (own_) (void)db_.Execute("BEGIN");
  }
  ~Snapshot() {
    if (own_) (void)db_.Execute("COMMIT");
  }
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

 private:
  Database& db_;
  const bool own_;
};

Error InChunk(const std::string& file, int64_t track_id, int64_t index, const Error& error) {
  return {fmt::format("store {}: chunk {} of track {}: {}", file, index, track_id, error.message)};
}

}  // namespace

Result<std::vector<ChunkRow>> Store::Chunks(int64_t track_id, Span span) const {
  if (Status fresh = impl_->Refresh(); !fresh.ok()) return fresh.error();
  auto use = impl_->db.Prepare(
      "SELECT track_id, chunk_index, first_ns, last_ns, events, busy_ns, max_depth, "
      "min_value, max_value FROM chunk "
      "WHERE track_id = ? AND first_ns <= ? AND last_ns >= ? ORDER BY chunk_index");
  if (!use.ok()) return use.error();
  (*use)->Bind(0, track_id);
  (*use)->Bind(1, span.end_ns);
  (*use)->Bind(2, span.begin_ns);
  std::vector<ChunkRow> rows;
  while (true) {
    const auto more = use->Step("chunk");
    if (!more.ok()) return more.error();
    if (!*more) return rows;
    ChunkRow& row = rows.emplace_back();
    (*use)->Read(0, row.track_id);
    (*use)->Read(1, row.chunk_index);
    (*use)->Read(2, row.first_ns);
    (*use)->Read(3, row.last_ns);
    (*use)->Read(4, row.events);
    (*use)->Read(5, row.busy_ns);
    (*use)->Read(6, row.max_depth);
    (*use)->Read(7, row.min_value);
    (*use)->Read(8, row.max_value);
  }
}

Result<EventBatch> Store::ReadChunk(int64_t track_id, int64_t chunk_index) const {
  if (Status fresh = impl_->Refresh(); !fresh.ok()) return fresh.error();
  const std::string& file = impl_->db.file();
  auto use = impl_->db.Prepare("SELECT data FROM chunk_data WHERE chunk_key = ?");
  if (!use.ok()) return use.error();
  (*use)->Bind(0, track_id << 32 | chunk_index);
  const auto row = use->Step("chunk_data");
  if (!row.ok()) return row.error();
  if (!*row) return InChunk(file, track_id, chunk_index, Error{"there is none"});
  EventBatch batch;
  Status status = DecodeChunk((*use)->Blob(0), batch);
  if (!status.ok()) return InChunk(file, track_id, chunk_index, status.error());
  return batch;
}

Result<std::vector<Store::NameTotal>> Store::ChunkNames(int64_t track_id, Span span) const {
  if (Status fresh = impl_->Refresh(); !fresh.ok()) return fresh.error();
  auto use = impl_->db.Prepare(
      "SELECT chunk_index, names FROM chunk WHERE track_id = ? AND first_ns <= ? AND last_ns >= ? "
      "ORDER BY chunk_index");
  if (!use.ok()) return use.error();
  (*use)->Bind(0, track_id);
  (*use)->Bind(1, span.end_ns);
  (*use)->Bind(2, span.begin_ns);
  std::vector<NameTotal> totals;
  std::unordered_map<uint64_t, size_t> index_of;
  while (true) {
    const auto row = use->Step("chunk");
    if (!row.ok()) return row.error();
    if (!*row) return totals;
    const auto names = DecodeNames((*use)->Blob(1));
    if (!names.ok()) {
      return InChunk(impl_->db.file(), track_id, (*use)->Integer(0), names.error());
    }
    for (const NameTotal& name : *names) {
      const uint64_t key = name.name | static_cast<uint64_t>(name.category) << 32;
      const auto [found, fresh] = index_of.try_emplace(key, totals.size());
      if (fresh) {
        totals.push_back(name);
      } else {
        totals[found->second].events += name.events;
        totals[found->second].total_ns += name.total_ns;
      }
    }
  }
}

Result<std::vector<Store::SummaryBucket>> Store::ChunkSummary(int64_t track_id,
                                                              int64_t chunk_index) const {
  if (Status fresh = impl_->Refresh(); !fresh.ok()) return fresh.error();
  auto use = impl_->db.Prepare("SELECT buckets FROM chunk WHERE track_id = ? AND chunk_index = ?");
  if (!use.ok()) return use.error();
  (*use)->Bind(0, track_id);
  (*use)->Bind(1, chunk_index);
  const auto row = use->Step("chunk");
  if (!row.ok()) return row.error();
  if (!*row) return InChunk(impl_->db.file(), track_id, chunk_index, Error{"there is none"});
  auto buckets = DecodeBuckets((*use)->Blob(0));
  if (!buckets.ok()) return InChunk(impl_->db.file(), track_id, chunk_index, buckets.error());
  return buckets;
}

Status Store::ReadEvents(const std::string& run_id, Span span, const EventSink& sink) const {
  if (Status fresh = impl_->Refresh(); !fresh.ok()) return fresh;
  const Snapshot snapshot(impl_->db);
  const auto tracks = Tracks(run_id);
  if (!tracks.ok()) return tracks.error();
  for (const TrackRow& track : *tracks) {
    const auto chunks = Chunks(track.track_id, span);
    if (!chunks.ok()) return chunks.error();
    for (const ChunkRow& chunk : *chunks) {
      auto batch = ReadChunk(track.track_id, chunk.chunk_index);
      if (!batch.ok()) return batch.error();
      if (chunk.first_ns < span.begin_ns || chunk.last_ns > span.end_ns) Keep(*batch, span);
      if (!batch->events.empty() && !sink(track, *batch)) return {};
    }
  }
  return {};
}

}  // namespace poolscope
