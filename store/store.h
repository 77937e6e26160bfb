#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/rows.h"
#include "trace/event.h"
#include "trace/result.h"

namespace poolscope {

// One SQLite file in WAL mode, one or more runs. Format, schema and migrations: docs/store.md.
// A Store is used from one thread at a time; several Stores may have the same file open. Writers
// take turns, a transaction each; readers see whole commits. Every error names the file.
class Store {
 public:
  enum class Mode { kRead, kWrite };  // kWrite creates the file and migrates older ones

  static Result<Store> Open(const std::filesystem::path& path, Mode mode);
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  const std::filesystem::path& path() const;
  void* sqlite() const;  // the sqlite3* of this store, for `poolscope sql` and tests

  // --- Writing: everything between Begin and Commit appears at once or not at all. The first
  // error stays: what follows in the transaction fails with it, and Commit rolls back. ---
  Status Begin();
  Status Commit();
  void Rollback();
  // Moves what is committed from the -wal file into the store's own, so that it can go anywhere by
  // itself. Closing the last connection does that too, but not once the file was renamed.
  Status Checkpoint();

  // Id of a text, made if new. Cached; ids start at 1.
  Result<uint32_t> Intern(std::string_view text);
  // Field names of a payload schema (string id of its name); type letters u, i, d, s (string id).
  struct SchemaField {
    std::string name;
    char type;
  };
  Status PutSchema(uint32_t schema, const std::vector<SchemaField>& fields);

  // Insert, or replace the row with the same key.
  Status Put(const RunRow&);
  Status Put(const ProcessRow&);
  Status Put(const ProcessFactRow&);
  Status Put(const SymbolRow&);
  Status Put(const PoolRow&);
  Status Put(const WorkerRow&);
  Status Put(const LinkRow&);
  Status Put(const SettingRow&);
  Status Put(const StepRow&);
  Status Put(const WorkerWindowRow&);
  Status Put(const WorkerLinkWindowRow&);
  Status Put(const PoolWindowRow&);
  Status Put(const LinkWindowRow&);
  Status Put(const VersionWindowRow&);
  Status Put(const CollectiveWindowRow&);
  Status Put(const DeviceWindowRow&);
  Status Put(const EventLossRow&);
  Status Put(const OpenRangeRow&);
  Status Put(const FindingRow&);
  Status Put(const CursorRow&);
  // Rows with store-local ids: found by natural key, made if new. The id is returned.
  Result<int64_t> PutThread(const ThreadRow&);  // key: session_id, tid; other fields updated
  Result<int64_t> TrackId(const TrackRow&);     // key: run_id, thread_id, kind, counter

  // Appends events of one track. Full chunks are written once; the track's unfinished chunk is
  // rewritten at each Commit until it is full (and taken up again after a restart); a slow track's
  // ends before, when it was rewritten often.
  // Only between Begin and Commit. Error: a payload that is not made of whole groups.
  Status Append(int64_t track_id, const EventBatch& batch);
  // Retention: drops the run's chunks that ended before `ns`, but for the newest of each track, and
  // returns how many events they held. Windows, steps and findings stay. The file does not shrink;
  // what is freed is used again.
  Result<int64_t> DropEventsBefore(const std::string& run_id, int64_t ns);

  // --- Reading. ---
  Result<std::vector<RunRow>> Runs() const;  // oldest first
  // The run whose id starts with `prefix`; the latest where empty. Error: none, or several.
  Result<RunRow> FindRun(std::string_view prefix) const;

  Result<std::vector<ProcessRow>> Processes(const std::string& run_id) const;
  Result<std::vector<ProcessFactRow>> ProcessFacts(const std::string& session_id) const;
  Result<std::vector<SymbolRow>> Symbols() const;
  Result<std::vector<ThreadRow>> Threads(const std::string& run_id) const;
  Result<std::vector<PoolRow>> Pools(const std::string& run_id) const;
  Result<std::vector<WorkerRow>> Workers(const std::string& run_id) const;
  Result<std::vector<LinkRow>> Links(const std::string& run_id) const;
  Result<std::vector<SettingRow>> Settings(const std::string& run_id) const;
  Result<std::vector<StepRow>> Steps(const std::string& run_id) const;
  struct Span {
    int64_t begin_ns = INT64_MIN;
    int64_t end_ns = INT64_MAX;
  };  // overlap decides
  Result<std::vector<WorkerWindowRow>> WorkerWindows(const std::string& run_id, Span) const;
  Result<std::vector<WorkerLinkWindowRow>> WorkerLinkWindows(const std::string& run_id, Span) const;
  Result<std::vector<PoolWindowRow>> PoolWindows(const std::string& run_id, Span) const;
  Result<std::vector<LinkWindowRow>> LinkWindows(const std::string& run_id, Span) const;
  Result<std::vector<VersionWindowRow>> VersionWindows(const std::string& run_id, Span) const;
  Result<std::vector<CollectiveWindowRow>> CollectiveWindows(const std::string& run_id, Span) const;
  Result<std::vector<DeviceWindowRow>> DeviceWindows(const std::string& run_id, Span) const;
  Result<std::vector<EventLossRow>> EventLosses(const std::string& run_id) const;
  Result<std::vector<OpenRangeRow>> OpenRanges(const std::string& run_id) const;
  Result<std::vector<FindingRow>> Findings(const std::string& run_id) const;
  Result<std::vector<CursorRow>> Cursors(const std::string& session_id) const;
  Result<std::optional<ProcessRow>> FindProcess(const std::string& session_id) const;

  Result<std::string> String(uint32_t id) const;                   // "" for 0
  Result<uint32_t> FindString(std::string_view text) const;        // 0 where absent
  Result<std::vector<SchemaField>> Schema(uint32_t schema) const;  // empty where absent

  Result<std::vector<TrackRow>> Tracks(const std::string& run_id) const;
  Result<std::vector<ChunkRow>> Chunks(int64_t track_id, Span) const;  // headers, by index
  Result<EventBatch> ReadChunk(int64_t track_id, int64_t chunk_index) const;
  // What one chunk holds by name without decoding it: events and total nanoseconds.
  struct NameTotal {
    uint32_t name;
    uint32_t category;
    int64_t events;
    int64_t total_ns;
  };
  Result<std::vector<NameTotal>> ChunkNames(int64_t track_id, Span) const;  // summed over chunks
  // Reduced picture of a chunk for zoomed-out drawing: its span cut into kSummaryBuckets equal
  // parts, each with the share covered by outermost ranges (0..255) and the name that covers most.
  struct SummaryBucket {
    uint8_t covered;
    uint32_t name;
  };
  static constexpr int kSummaryBuckets = 64;
  Result<std::vector<SummaryBucket>> ChunkSummary(int64_t track_id, int64_t chunk_index) const;
  // Every event of the run that overlaps the span, track by track, of one state of the store; stop
  // by returning false. The sink may read from this store, not write to it.
  using EventSink = std::function<bool(const TrackRow&, const EventBatch&)>;
  Status ReadEvents(const std::string& run_id, Span, const EventSink&) const;

  // Grows with each commit by any connection; cheap, for live following.
  int64_t DataVersion() const;

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace poolscope
