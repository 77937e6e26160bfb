#include <fmt/format.h>

#include "store/row_sql.h"
#include "store/store.h"
#include "store/store_impl.h"
#include "trace/limits.h"

namespace poolscope {
namespace {

// `impl` is a Store::Impl, which only Store may name.
template <typename Row>
Status PutIn(auto& impl, const Row& row) {
  if (Status may = impl.MayWrite("Put"); !may.ok()) return may;
  if constexpr (requires { row.window_ns; }) {
    if (row.window_ns > kMaxWindowNs) {  // Windows() would not find it
      return impl.Note(Error{fmt::format("store {}: a window of {} ns is longer than {} ns",
                                         impl.path.string(), row.window_ns, kMaxWindowNs)});
    }
  }
  return impl.Note(PutRow(impl.db, row));
}

template <typename Row>
Result<std::vector<Row>> Rows(auto& impl, const char* rest, const auto&... values) {
  if (Status fresh = impl.Refresh(); !fresh.ok()) return fresh.error();
  return SelectRows<Row>(impl.db, rest, values...);
}

template <typename Row>
Result<std::vector<Row>> Windows(auto& impl, const std::string& run_id, Store::Span span) {
  // The key begins with run and start: the first bound spares reading from the run's start.
  const int64_t earliest =
      span.begin_ns < INT64_MIN + kMaxWindowNs ? INT64_MIN : span.begin_ns - kMaxWindowNs;
  return Rows<Row>(impl,
                   "WHERE run_id = ? AND start_ns >= ? AND start_ns < ? "
                   "AND start_ns + window_ns > ? ORDER BY start_ns",
                   run_id, earliest, span.end_ns, span.begin_ns);
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

Status Store::Put(const RunRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const ProcessRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const ProcessFactRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const SymbolRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const PoolRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const WorkerRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const LinkRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const SettingRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const StepRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const WorkerWindowRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const WorkerLinkWindowRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const PoolWindowRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const LinkWindowRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const VersionWindowRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const CollectiveWindowRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const DeviceWindowRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const EventLossRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const OpenRangeRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const FindingRow& row) { return PutIn(*impl_, row); }
Status Store::Put(const CursorRow& row) { return PutIn(*impl_, row); }

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
  return Rows<RunRow>(*impl_, "ORDER BY start_ns, run_id");
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

Result<std::vector<ProcessRow>> Store::Processes(const std::string& run_id) const {
  return Rows<ProcessRow>(*impl_, "WHERE run_id = ? ORDER BY start_ns, session_id", run_id);
}
Result<std::vector<ProcessFactRow>> Store::ProcessFacts(const std::string& session_id) const {
  return Rows<ProcessFactRow>(*impl_, "WHERE session_id = ? ORDER BY key", session_id);
}
Result<std::vector<SymbolRow>> Store::Symbols() const {
  return Rows<SymbolRow>(*impl_, "ORDER BY string_id, mangled");
}
Result<std::vector<ThreadRow>> Store::Threads(const std::string& run_id) const {
  return Rows<ThreadRow>(*impl_,
                         "WHERE session_id IN (SELECT session_id FROM process WHERE run_id = ?) "
                         "ORDER BY thread_id",
                         run_id);
}
Result<std::vector<PoolRow>> Store::Pools(const std::string& run_id) const {
  return Rows<PoolRow>(*impl_, "WHERE run_id = ? ORDER BY pool", run_id);
}
Result<std::vector<WorkerRow>> Store::Workers(const std::string& run_id) const {
  return Rows<WorkerRow>(*impl_, "WHERE run_id = ? ORDER BY pool, worker_index", run_id);
}
Result<std::vector<LinkRow>> Store::Links(const std::string& run_id) const {
  return Rows<LinkRow>(*impl_, "WHERE run_id = ? ORDER BY link", run_id);
}
Result<std::vector<SettingRow>> Store::Settings(const std::string& run_id) const {
  return Rows<SettingRow>(*impl_, "WHERE run_id = ? ORDER BY key", run_id);
}
Result<std::vector<StepRow>> Store::Steps(const std::string& run_id) const {
  return Rows<StepRow>(*impl_, "WHERE run_id = ? ORDER BY step", run_id);
}
Result<std::vector<CollectiveWindowRow>> Store::CollectiveWindows(const std::string& run_id,
                                                                  Span span) const {
  return Windows<CollectiveWindowRow>(*impl_, run_id, span);
}

Result<std::vector<DeviceWindowRow>> Store::DeviceWindows(const std::string& run_id,
                                                          Span span) const {
  return Windows<DeviceWindowRow>(*impl_, run_id, span);
}

Result<std::vector<EventLossRow>> Store::EventLosses(const std::string& run_id) const {
  return Rows<EventLossRow>(*impl_, "WHERE run_id = ? ORDER BY session_id, cause, place", run_id);
}
Result<std::vector<OpenRangeRow>> Store::OpenRanges(const std::string& run_id) const {
  return Rows<OpenRangeRow>(*impl_, "WHERE run_id = ? ORDER BY session_id, tid, start_ns", run_id);
}
Result<std::vector<FindingRow>> Store::Findings(const std::string& run_id) const {
  return Rows<FindingRow>(*impl_, "WHERE run_id = ? ORDER BY first_ns, rule, subject", run_id);
}
Result<std::vector<CursorRow>> Store::Cursors(const std::string& session_id) const {
  return Rows<CursorRow>(*impl_, "WHERE session_id = ? ORDER BY slot", session_id);
}
Result<std::vector<TrackRow>> Store::Tracks(const std::string& run_id) const {
  return Rows<TrackRow>(*impl_, "WHERE run_id = ? ORDER BY track_id", run_id);
}

Result<std::vector<WorkerWindowRow>> Store::WorkerWindows(const std::string& run_id,
                                                          Span span) const {
  return Windows<WorkerWindowRow>(*impl_, run_id, span);
}
Result<std::vector<WorkerLinkWindowRow>> Store::WorkerLinkWindows(const std::string& run_id,
                                                                  Span span) const {
  return Windows<WorkerLinkWindowRow>(*impl_, run_id, span);
}
Result<std::vector<PoolWindowRow>> Store::PoolWindows(const std::string& run_id, Span span) const {
  return Windows<PoolWindowRow>(*impl_, run_id, span);
}
Result<std::vector<LinkWindowRow>> Store::LinkWindows(const std::string& run_id, Span span) const {
  return Windows<LinkWindowRow>(*impl_, run_id, span);
}
Result<std::vector<VersionWindowRow>> Store::VersionWindows(const std::string& run_id,
                                                            Span span) const {
  return Windows<VersionWindowRow>(*impl_, run_id, span);
}

Result<std::optional<ProcessRow>> Store::FindProcess(const std::string& session_id) const {
  auto rows = Rows<ProcessRow>(*impl_, "WHERE session_id = ?", session_id);
  if (!rows.ok()) return rows.error();
  if (rows->empty()) return std::optional<ProcessRow>();
  return std::optional<ProcessRow>(std::move(rows->front()));
}

}  // namespace poolscope
