#include <fmt/format.h>

#include <algorithm>

#include "store/chunk_summary.h"
#include "store/store.h"
#include "store/store_impl.h"

// Writing events: a track's newest events gather in its unfinished chunk, which is written at every
// commit under its index and so replaces what the commit before wrote.
namespace poolscope {
namespace {

// Unfinished chunks in memory, over all tracks; above it those not in use are read again instead.
constexpr size_t kMaxCachedEvents = size_t{2} << 20;
// A chunk closes early while one more event, whatever its payload, still fits.
constexpr size_t kFullWords = kMaxWordsPerChunk - UINT16_MAX;

// A slow track's chunk ends before it is full: writing it again at each commit would cost more than
// its size saves.
constexpr size_t kSlowTrackEvents = 1024;
constexpr int kSlowTrackCommits = 16;

int64_t ChunkKey(int64_t track_id, int64_t chunk_index) { return track_id << 32 | chunk_index; }

bool IsFull(const EventBatch& batch) {
  return batch.events.size() >= kEventsPerChunk || batch.words.size() > kFullWords;
}

// Moves events of `from`, beginning with `at`, until `to` is full; returns the next one to move.
size_t Fill(const EventBatch& from, size_t at, EventBatch& to) {
  while (at < from.events.size() && !IsFull(to)) {
    size_t end = std::min(from.events.size(), at + kEventsPerChunk - to.events.size());
    for (; at < end && !IsFull(to); ++at) {
      Event& event = to.events.emplace_back(from.events[at]);
      if (event.payload_words == 0) continue;
      const auto words = from.words.begin() + event.payload_offset;
      event.payload_offset = static_cast<uint32_t>(to.words.size());
      to.words.insert(to.words.end(), words, words + event.payload_words);
    }
  }
  return at;
}

Status CheckPayloads(const EventBatch& batch) {
  for (const Event& event : batch.events) {
    const size_t end = size_t{event.payload_offset} + event.payload_words;
    size_t at = event.payload_offset;
    while (at < end && end <= batch.words.size()) {
      const size_t fields = batch.words[at] >> 32;
      if (fields > end - at - 1) break;
      at += 1 + fields;
    }
    if (event.payload_words != 0 && at != end) {
      return Error{
          fmt::format("event at {} ns: its payload of {} words at {} is not made of whole "
                      "groups",
                      event.start_ns, event.payload_words, event.payload_offset)};
    }
  }
  return {};
}

}  // namespace

Status Store::Append(int64_t track_id, const EventBatch& batch) {
  Impl& impl = *impl_;
  if (Status may = impl.MayWrite("Append"); !may.ok()) return may;
  if (!impl.in_transaction) {
    return Error{fmt::format("store {}: Append outside a transaction", impl.path.string())};
  }
  if (batch.events.empty()) return {};
  if (Status status = CheckPayloads(batch); !status.ok()) return impl.Note(status);
  const auto unfinished = impl.TakeUp(track_id);
  if (!unfinished.ok()) return impl.Note(unfinished.error());
  Impl::Unfinished& chunk = **unfinished;
  for (size_t at = 0; at < batch.events.size();) {
    at = Fill(batch, at, chunk.batch);
    if (!IsFull(chunk.batch)) break;
    Status status = impl.WriteChunk(track_id, chunk.chunk_index, chunk.batch);
    if (!status.ok()) return impl.Note(status);
    chunk.StartNext();
  }
  return {};
}

Result<int64_t> Store::DropEventsBefore(const std::string& run_id, int64_t ns) {
  Impl& impl = *impl_;
  if (Status may = impl.MayWrite("DropEventsBefore"); !may.ok()) return may.error();
  const auto tracks = Tracks(run_id);
  if (!tracks.ok()) return tracks.error();
  int64_t dropped = 0;
  for (const TrackRow& track : *tracks) {
    auto chunks = Chunks(track.track_id, {});
    if (!chunks.ok()) return chunks.error();
    if (!chunks->empty()) chunks->pop_back();  // the unfinished one may be in memory
    for (const ChunkRow& chunk : *chunks) {
      if (chunk.last_ns >= ns) continue;
      for (const char* sql : {"DELETE FROM chunk_data WHERE chunk_key = ?1 << 32 | ?2",
                              "DELETE FROM chunk WHERE track_id = ?1 AND chunk_index = ?2"}) {
        auto use = impl.db.Prepare(sql);
        if (!use.ok()) return use.error();
        (*use)->Bind(0, chunk.track_id);
        (*use)->Bind(1, chunk.chunk_index);
        if (Status status = impl.Note(use->Run("chunk")); !status.ok()) return status.error();
      }
      dropped += chunk.events;
    }
  }
  return dropped;
}

// The track's unfinished chunk, read back if it is not in memory.
Result<Store::Impl::Unfinished*> Store::Impl::TakeUp(int64_t track_id) {
  const auto [found, fresh] = unfinished.try_emplace(track_id);
  Unfinished& chunk = found->second;
  if (fresh) {
    auto use = db.Prepare(
        "SELECT chunk_index, data FROM chunk JOIN chunk_data ON chunk_key = track_id << 32 | "
        "chunk_index WHERE track_id = ? ORDER BY chunk_index DESC LIMIT 1");
    if (!use.ok()) return use.error();
    (*use)->Bind(0, track_id);
    const auto row = use->Step("chunk");
    if (!row.ok()) return row.error();
    if (*row) {
      chunk.chunk_index = (*use)->Integer(0);
      // A damaged chunk is left as it is: writing goes on after it.
      if (!DecodeChunk((*use)->Blob(1), chunk.batch).ok() || IsFull(chunk.batch)) {
        chunk.StartNext();
      }
    }
  }
  if (!chunk.touched) {
    chunk.touched = true;
    touched_tracks.push_back(track_id);
  }
  return &chunk;
}

Status Store::Impl::WriteChunk(int64_t track_id, int64_t chunk_index, const EventBatch& batch) {
  const auto bytes = encoder.Encode(batch);
  if (!bytes.ok()) return bytes.error();
  const ChunkDigest summary = Summarize(batch);
  const std::vector<uint8_t> names = EncodeNames(summary.names);
  const std::vector<uint8_t> buckets = EncodeBuckets(summary.buckets);
  {
    auto use = db.Prepare("INSERT OR REPLACE INTO chunk_data (chunk_key, data) VALUES (?, ?)");
    if (!use.ok()) return use.error();
    (*use)->Bind(0, ChunkKey(track_id, chunk_index));
    (*use)->Bind(1, *bytes);
    if (Status status = use->Run("chunk_data"); !status.ok()) return status;
  }
  auto use = db.Prepare(
      "INSERT OR REPLACE INTO chunk (track_id, chunk_index, first_ns, last_ns, events, busy_ns, "
      "max_depth, names, buckets, min_value, max_value) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  if (!use.ok()) return use.error();
  (*use)->Bind(0, track_id);
  (*use)->Bind(1, chunk_index);
  (*use)->Bind(2, summary.first_ns);
  (*use)->Bind(3, summary.last_ns);
  (*use)->Bind(4, static_cast<int64_t>(batch.events.size()));
  (*use)->Bind(5, summary.busy_ns);
  (*use)->Bind(6, summary.max_depth);
  (*use)->Bind(7, std::span<const uint8_t>(names));
  (*use)->Bind(8, std::span<const uint8_t>(buckets));
  (*use)->Bind(9, summary.min_value);
  (*use)->Bind(10, summary.max_value);
  return use->Run("chunk");
}

Status Store::Impl::WriteUnfinished() {
  size_t cached = 0;
  for (const int64_t track : touched_tracks) {
    Unfinished& chunk = unfinished[track];
    chunk.touched = false;
    if (chunk.batch.events.empty()) continue;
    Status status = WriteChunk(track, chunk.chunk_index, chunk.batch);
    if (!status.ok()) return status;
    ++chunk.commits;
    if (chunk.commits >= kSlowTrackCommits && chunk.batch.events.size() >= kSlowTrackEvents) {
      chunk.StartNext();
    }
  }
  for (const auto& [track, chunk] : unfinished) cached += chunk.batch.events.capacity();
  if (cached > kMaxCachedEvents) unfinished.clear();
  return {};
}

}  // namespace poolscope
