#include "store/event_reader.h"

#include <algorithm>

#include "store/chunk_codec.h"
#include "store/chunk_summary.h"

namespace poolscope {

const char* EventKindName(int64_t kind) {
  static constexpr const char* kNames[] = {"", "range", "mark", "counter"};
  return kind >= 0 && kind < 4 ? kNames[kind] : "";
}

bool EventReader::Fail(std::string problem) {
  problem_ = std::move(problem);
  return false;
}

bool EventReader::Start(EventFilter filter) {
  filter_ = std::move(filter);
  tracks_.clear();
  chunks_.clear();
  batch_.events.clear();
  track_ = chunk_ = row_ = 0;
  if (filter_.name && *filter_.name == 0) return true;
  if (!ReadTracks()) return false;
  return tracks_.empty() || (ReadChunkList() && Settle());
}

bool EventReader::Next() {
  ++row_;
  return Settle();
}

bool EventReader::ReadTracks() {
  sqlite3_stmt* prepared = nullptr;
  if (sqlite3_prepare_v2(
          db_,
          "SELECT track_id, kind, track.run_id, host, pid, tid, thread.name, pool, worker_index "
          "FROM track JOIN thread USING (thread_id) JOIN process USING (session_id) "
          "ORDER BY track_id",
          -1, &prepared, nullptr) != SQLITE_OK) {
    return Fail("this database is not a Poolscope store");
  }
  Statement statement(prepared);
  int code;
  while ((code = sqlite3_step(prepared)) == SQLITE_ROW) {
    Track found;
    statement.Read(0, found.track_id);
    statement.Read(2, found.run_id);
    statement.Read(3, found.host);
    statement.Read(4, found.pid);
    statement.Read(5, found.tid);
    statement.Read(6, found.thread);
    statement.Read(7, found.pool);
    statement.Read(8, found.worker_index);
    if (filter_.run_id && *filter_.run_id != found.run_id) continue;
    if (filter_.pool && *filter_.pool != found.pool) continue;
    if (filter_.kind && *filter_.kind != EventKindName(statement.Integer(1))) continue;
    if (filter_.tid && *filter_.tid != found.tid) continue;
    if (filter_.track_id && *filter_.track_id != found.track_id) continue;
    tracks_.push_back(std::move(found));
  }
  return code == SQLITE_DONE || Failed();
}

bool EventReader::HoldsName(std::span<const uint8_t> bytes) const {
  if (!filter_.name && !filter_.category) return true;
  const auto names = DecodeNames(bytes);
  if (!names.ok()) return true;  // reading its events tells what is wrong
  return std::any_of(names->begin(), names->end(), [&](const Store::NameTotal& total) {
    return (!filter_.name || total.name == *filter_.name) &&
           (!filter_.category || total.category == *filter_.category);
  });
}

bool EventReader::ReadChunkList() {
  sqlite3_stmt* prepared = nullptr;
  if (sqlite3_prepare_v2(db_,
                         "SELECT chunk_index, names FROM chunk WHERE track_id = ? AND "
                         "first_ns <= ? AND last_ns >= ? ORDER BY chunk_index",
                         -1, &prepared, nullptr) != SQLITE_OK) {
    return Failed();
  }
  Statement statement(prepared);
  statement.Bind(0, track().track_id);
  statement.Bind(1, filter_.start_to);
  statement.Bind(2, std::max(filter_.start_from, filter_.end_from));
  chunks_.clear();
  chunk_ = 0;
  int code;
  while ((code = sqlite3_step(prepared)) == SQLITE_ROW) {
    if (HoldsName(statement.Blob(1))) chunks_.push_back(statement.Integer(0));
  }
  return code == SQLITE_DONE || Failed();
}

bool EventReader::ReadData(int64_t chunk_index) {
  if (!data_) {
    sqlite3_stmt* prepared = nullptr;
    if (sqlite3_prepare_v2(db_, "SELECT data FROM chunk_data WHERE chunk_key = ?", -1, &prepared,
                           nullptr) != SQLITE_OK) {
      return Failed();
    }
    data_ = Statement(prepared);
  }
  data_.Bind(0, track().track_id << 32 | chunk_index);
  const int code = sqlite3_step(data_.get());
  std::string problem;
  if (code == SQLITE_ROW) {
    const Status status = DecodeChunk(data_.Blob(0), batch_);
    if (!status.ok()) problem = status.error().message;
  } else {
    problem = code == SQLITE_DONE ? "its events are missing" : sqlite3_errmsg(db_);
  }
  sqlite3_reset(data_.get());
  if (problem.empty()) return true;
  return Fail("chunk " + std::to_string(chunk_index) + " of track " +
              std::to_string(track().track_id) + ": " + problem);
}

bool EventReader::Wanted() const {
  return event().start_ns >= filter_.start_from && event().start_ns <= filter_.start_to &&
         event().end_ns() >= filter_.end_from && (!filter_.name || event().name == *filter_.name);
}

bool EventReader::Settle() {
  while (true) {
    for (; row_ < batch_.events.size(); ++row_) {
      if (Wanted()) return true;
    }
    batch_.events.clear();
    row_ = 0;
    if (chunk_ < chunks_.size()) {
      if (!ReadData(chunks_[chunk_++])) return false;
    } else {
      if (++track_ >= tracks_.size()) return true;
      if (!ReadChunkList()) return false;
    }
  }
}

}  // namespace poolscope
