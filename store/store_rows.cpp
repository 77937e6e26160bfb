#include <fmt/format.h>

#include "store/row_sql.h"
#include "store/store.h"
#include "store/store_impl.h"

namespace poolscope {
namespace {

// Windows are half-open: one that ends where the span begins is not in it.
template <typename Row>
Result<std::vector<Row>> SelectWindows(Database& db, const std::string& run_id, Store::Span span) {
  return SelectRows<Row>(db,
                         "WHERE run_id = ? AND start_ns < ? AND start_ns + window_ns > ? "
                         "ORDER BY start_ns",
                         run_id, span.end_ns, span.begin_ns);
}

// An id made by INSERT ... RETURNING or found.
Result<int64_t> ReturnedId(Database::Use& use, const char* doing) {
  const auto row = use.Step(doing);
  if (!row.ok()) return row.error();
  const int64_t id = *row ? use->Integer(0) : 0;
  if (*row) {
    if (Status status = use.Run(doing); !status.ok()) return status.error();
  }
  return id;
}

}  // namespace

#define POOLSCOPE_PUT(Row)                                          \
  Status Store::Put(const Row& row) {                               \
    if (Status may = impl_->MayWrite("Put"); !may.ok()) return may; \
    return impl_->Note(PutRow(impl_->db, row));                     \
  }
POOLSCOPE_PUT(RunRow)
POOLSCOPE_PUT(ProcessRow)
POOLSCOPE_PUT(PoolRow)
POOLSCOPE_PUT(WorkerRow)
POOLSCOPE_PUT(LinkRow)
POOLSCOPE_PUT(SettingRow)
POOLSCOPE_PUT(StepRow)
POOLSCOPE_PUT(WorkerWindowRow)
POOLSCOPE_PUT(WorkerLinkWindowRow)
POOLSCOPE_PUT(PoolWindowRow)
POOLSCOPE_PUT(LinkWindowRow)
POOLSCOPE_PUT(VersionWindowRow)
POOLSCOPE_PUT(EventLossRow)
POOLSCOPE_PUT(OpenRangeRow)
POOLSCOPE_PUT(FindingRow)
POOLSCOPE_PUT(CursorRow)
#undef POOLSCOPE_PUT

Result<int64_t> Store::PutThread(const ThreadRow& row) {
  if (Status may = impl_->MayWrite("PutThread"); !may.ok()) return may.error();
  auto use = impl_->db.Prepare(
      "INSERT INTO thread (session_id, tid, name, pool, worker_index) VALUES (?, ?, ?, ?, ?) "
      "ON CONFLICT (session_id, tid) DO UPDATE SET name = excluded.name, pool = excluded.pool, "
      "worker_index = excluded.worker_index RETURNING thread_id");
  if (!use.ok()) return use.error();
  (*use)->Bind(0, row.session_id);
  (*use)->Bind(1, row.tid);
  (*use)->Bind(2, row.name);
  (*use)->Bind(3, row.pool);
  (*use)->Bind(4, row.worker_index);
  auto id = ReturnedId(*use, "thread");
  if (!id.ok()) (void)impl_->Note(id.error());
  return id;
}

Result<int64_t> Store::TrackId(const TrackRow& row) {
  auto find = impl_->db.Prepare(
      "SELECT track_id FROM track WHERE run_id = ? AND thread_id = ? AND kind = ? AND counter = ?");
  if (!find.ok()) return find.error();
  (*find)->Bind(0, row.run_id);
  (*find)->Bind(1, row.thread_id);
  (*find)->Bind(2, row.kind);
  (*find)->Bind(3, row.counter);
  auto id = ReturnedId(*find, "track");
  if (!id.ok() || *id != 0) return id;
  if (Status may = impl_->MayWrite("TrackId"); !may.ok()) return may.error();
  auto make = impl_->db.Prepare(
      "INSERT INTO track (run_id, thread_id, kind, counter) VALUES (?, ?, ?, ?) "
      "RETURNING track_id");
  if (!make.ok()) return make.error();
  (*make)->Bind(0, row.run_id);
  (*make)->Bind(1, row.thread_id);
  (*make)->Bind(2, row.kind);
  (*make)->Bind(3, row.counter);
  id = ReturnedId(*make, "track");
  if (!id.ok()) (void)impl_->Note(id.error());
  return id;
}

Result<std::vector<RunRow>> Store::Runs() const {
  if (Status fresh = impl_->Refresh(); !fresh.ok()) return fresh.error();
  return SelectRows<RunRow>(impl_->db, "ORDER BY start_ns, run_id");
}

Result<RunRow> Store::FindRun(std::string_view prefix) const {
  auto runs = Runs();
  if (!runs.ok()) return runs.error();
  const std::string file = path().string();
  if (runs->empty()) return Error{fmt::format("store {} holds no run yet", file)};
  if (prefix.empty()) return runs->back();
  const RunRow* found = nullptr;
  int count = 0;
  for (const RunRow& run : *runs) {
    if (!run.run_id.starts_with(prefix)) continue;
    found = &run;
    ++count;
  }
  if (count == 1) return *found;
  if (count > 1) {
    return Error{
        fmt::format("{} runs of store {} begin with {}; give more digits", count, file, prefix)};
  }
  return Error{
      fmt::format("store {} has no run {}; its latest is {}", file, prefix, runs->back().run_id)};
}

#define POOLSCOPE_ROWS(Row, Name, rest)                                     \
  Result<std::vector<Row>> Store::Name(const std::string& run_id) const {   \
    if (Status fresh = impl_->Refresh(); !fresh.ok()) return fresh.error(); \
    return SelectRows<Row>(impl_->db, rest, run_id);                        \
  }
POOLSCOPE_ROWS(ProcessRow, Processes, "WHERE run_id = ? ORDER BY start_ns, session_id")
POOLSCOPE_ROWS(ThreadRow, Threads,
               "WHERE session_id IN (SELECT session_id FROM process WHERE run_id = ?) "
               "ORDER BY thread_id")
POOLSCOPE_ROWS(PoolRow, Pools, "WHERE run_id = ? ORDER BY pool")
POOLSCOPE_ROWS(WorkerRow, Workers, "WHERE run_id = ? ORDER BY pool, worker_index")
POOLSCOPE_ROWS(LinkRow, Links, "WHERE run_id = ? ORDER BY link")
POOLSCOPE_ROWS(SettingRow, Settings, "WHERE run_id = ? ORDER BY key")
POOLSCOPE_ROWS(StepRow, Steps, "WHERE run_id = ? ORDER BY step")
POOLSCOPE_ROWS(EventLossRow, EventLosses, "WHERE run_id = ? ORDER BY session_id, cause, place")
POOLSCOPE_ROWS(OpenRangeRow, OpenRanges, "WHERE run_id = ? ORDER BY session_id, tid, start_ns")
POOLSCOPE_ROWS(FindingRow, Findings, "WHERE run_id = ? ORDER BY first_ns, rule, subject")
POOLSCOPE_ROWS(CursorRow, Cursors, "WHERE session_id = ? ORDER BY slot")
POOLSCOPE_ROWS(TrackRow, Tracks, "WHERE run_id = ? ORDER BY track_id")
#undef POOLSCOPE_ROWS

#define POOLSCOPE_WINDOWS(Row, Name)                                                 \
  Result<std::vector<Row>> Store::Name(const std::string& run_id, Span span) const { \
    if (Status fresh = impl_->Refresh(); !fresh.ok()) return fresh.error();          \
    return SelectWindows<Row>(impl_->db, run_id, span);                              \
  }
POOLSCOPE_WINDOWS(WorkerWindowRow, WorkerWindows)
POOLSCOPE_WINDOWS(WorkerLinkWindowRow, WorkerLinkWindows)
POOLSCOPE_WINDOWS(PoolWindowRow, PoolWindows)
POOLSCOPE_WINDOWS(LinkWindowRow, LinkWindows)
POOLSCOPE_WINDOWS(VersionWindowRow, VersionWindows)
#undef POOLSCOPE_WINDOWS

Result<std::optional<ProcessRow>> Store::FindProcess(const std::string& session_id) const {
  if (Status fresh = impl_->Refresh(); !fresh.ok()) return fresh.error();
  auto rows = SelectRows<ProcessRow>(impl_->db, "WHERE session_id = ?", session_id);
  if (!rows.ok()) return rows.error();
  if (rows->empty()) return std::optional<ProcessRow>();
  return std::optional<ProcessRow>(std::move(rows->front()));
}

}  // namespace poolscope
