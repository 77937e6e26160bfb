#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/event_texts.h"
#include "store/statement.h"
#include "trace/event.h"

namespace poolscope {

// "range", "mark" or "counter"; "" for anything else.
const char* EventKindName(int64_t kind);

// What is known of the events asked for.
struct EventFilter {
  int64_t start_from = INT64_MIN, start_to = INT64_MAX;
  int64_t end_from = INT64_MIN;
  std::optional<std::string> run_id, pool, kind;
  std::optional<int64_t> tid, track_id, category;
  std::optional<uint32_t> name;  // string id; 0: no event has that name
};

// Walks over the events that pass a filter, track by track in the order of recording, decoding only
// chunks that may hold one. Reads through a connection that is not its own, so it works inside the
// statement that asks. Where a function returns false, problem() says why.
class EventReader {
 public:
  struct Track {
    int64_t track_id = 0;
    int64_t pid = 0, tid = 0, worker_index = 0;
    std::string run_id, host, thread, pool;
  };

  explicit EventReader(sqlite3* db) : db_(db) {}

  bool Start(EventFilter filter);
  bool Next();
  bool done() const { return track_ >= tracks_.size(); }
  const std::string& problem() const { return problem_; }

  // Of the current event; not to be asked when done.
  const Track& track() const { return tracks_[track_]; }
  const EventBatch& batch() const { return batch_; }
  const Event& event() const { return batch_.events[row_]; }

 private:
  bool ReadTracks();
  bool ReadChunkList();
  bool ReadData(int64_t chunk_index);
  bool HoldsName(std::span<const uint8_t> names) const;
  bool Wanted() const;
  bool Settle();  // to the next event that is wanted, from row_ on
  bool Fail(std::string problem);
  bool Failed() { return Fail(sqlite3_errmsg(db_)); }

  sqlite3* db_;
  EventFilter filter_;
  std::string problem_;
  std::vector<Track> tracks_;
  size_t track_ = 0;
  std::vector<int64_t> chunks_;  // of the track, those to decode
  size_t chunk_ = 0;             // the next of them
  Statement data_;
  EventBatch batch_;
  size_t row_ = 0;
};

}  // namespace poolscope
