#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/chunk_codec.h"
#include "store/database.h"
#include "store/store.h"

// The inside of Store, shared by its sources: store.cpp (opening, transactions), store_rows.cpp,
// store_strings.cpp, store_chunks.cpp (writing events), store_events.cpp (reading them).
namespace poolscope {

struct Store::Impl {
  Impl(std::filesystem::path store_path, Mode store_mode, Database database)
      : path(std::move(store_path)), mode(store_mode), db(std::move(database)) {}

  const std::filesystem::path path;
  const Mode mode;
  Database db;

  // What tells that a file has changed, for readers that are not told otherwise.
  struct Stamp {
    std::filesystem::file_time_type time;
    uintmax_t bytes = 0;
    bool operator==(const Stamp&) const = default;
  };
  bool immutable = false;    // opened without locks, since nobody was writing
  bool without_log = false;  // there is a log, but it cannot be read here
  Stamp stamp;               // when opened

  // The transaction. The first error in it stays, so that nothing after it is written alone.
  bool in_transaction = false;
  std::optional<Error> failed;
  int64_t others_version = 0;  // PRAGMA data_version when the caches below were last good
  int64_t own_commits = 0;
  int64_t version_base = 0;

  // Caches of committed content and of what this transaction adds; the file is the truth.
  struct TextHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, uint32_t, TextHash, std::equal_to<>> string_ids;
  std::unordered_map<uint32_t, std::string> texts;
  std::vector<uint32_t> new_strings;  // of this transaction
  struct Unfinished {
    int64_t chunk_index = 0;
    EventBatch batch;
    int commits = 0;       // that wrote it
    bool touched = false;  // in this transaction

    void StartNext() {
      ++chunk_index;
      commits = 0;
      batch.events.clear();
      batch.words.clear();
    }
  };
  std::unordered_map<int64_t, Unfinished> unfinished;  // by track
  std::vector<int64_t> touched_tracks;
  ChunkEncoder encoder;

  // Every write goes through here: an Error in a transaction makes the rest of it fail too.
  Status Note(Status status);
  Status MayWrite(const char* what) const;
  void ForgetTransaction();  // drops what the caches took from a transaction that did not commit
  void ForgetCaches();

  Status WriteUnfinished();
  Status WriteChunk(int64_t track_id, int64_t chunk_index, const EventBatch& batch);
  Result<Unfinished*> TakeUp(int64_t track_id);

  Result<int64_t> Pragma(const char* sql);
  static Result<std::unique_ptr<Impl>> OpenAs(const std::filesystem::path& path,
                                              Database::Access access);
  static Result<std::unique_ptr<Impl>> OpenForReading(const std::filesystem::path& path);
  static Stamp StampOf(const std::filesystem::path& path);
  // An immutable store has no locks: once a writer has come, or has been, open it again.
  Status Refresh();
  Status Check();  // that it is a store of this format
  Status CreateSchema();
  Status Prepare();  // pragmas and modules, after Open
};

}  // namespace poolscope
