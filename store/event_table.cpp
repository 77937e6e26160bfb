#include "store/event_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/chunk_codec.h"
#include "store/chunk_summary.h"
#include "store/event_texts.h"

namespace poolscope {
namespace {

// In the order of kEventTableSql.
enum EventColumn : int {
  kRunId,
  kHost,
  kPid,
  kTid,
  kThread,
  kPool,
  kWorkerIndex,
  kTrackId,
  kKind,
  kDomain,
  kName,
  kCategory,
  kCategoryName,
  kStartNs,
  kEndNs,
  kDurationNs,
  kDepth,
  kValue,
  kFlags,
  kPayload,
};

constexpr const char* kKinds[] = {"", "range", "mark", "counter"};
constexpr const char* kCategories[] = {nullptr,        "work",        "transfer",  "wait_link",
                                       "blocked_link", "wait_credit", "wait_peer", "input",
                                       "other_work",   "step",        "discard",   "phase"};

// What is known of the events asked for. SQLite checks every row again, so this may be wider than
// the question, never narrower.
struct Filter {
  int64_t start_from = INT64_MIN, start_to = INT64_MAX;
  int64_t end_from = INT64_MIN;
  std::optional<std::string> run_id, pool, kind;
  std::optional<int64_t> tid, track_id, category;
  std::optional<uint32_t> name;  // string id; 0: no event has that name
};

struct Track {
  int64_t track_id = 0;
  int64_t pid = 0, tid = 0, worker_index = 0;
  std::string run_id, host, thread, pool;
};

struct EventTable : sqlite3_vtab {
  explicit EventTable(sqlite3* connection) : sqlite3_vtab{}, db(connection), texts(connection) {}
  sqlite3* db;
  EventTexts texts;

  int Fail(const std::string& message) {
    sqlite3_free(zErrMsg);
    zErrMsg = sqlite3_mprintf("%s", message.c_str());
    return SQLITE_ERROR;
  }
};

struct EventCursor : sqlite3_vtab_cursor {
  explicit EventCursor(EventTable* owner) : sqlite3_vtab_cursor{}, table(owner) {}

  EventTable* table;
  Filter filter;
  std::vector<Track> tracks;
  size_t track = 0;
  std::vector<int64_t> chunks;  // of the track, that may hold what is asked
  size_t chunk = 0;
  Statement data;
  EventBatch batch;
  size_t row = 0;
  int64_t rowid = 0;

  bool done() const { return track >= tracks.size(); }
  const Event& event() const { return batch.events[row]; }

  int Start();
  int ReadTracks();
  int ReadChunkList();
  int ReadData(int64_t chunk_index);
  bool HoldsName(std::span<const uint8_t> names) const;
  bool Wanted() const {
    return event().start_ns >= filter.start_from && event().start_ns <= filter.start_to &&
           event().end_ns() >= filter.end_from && (!filter.name || event().name == *filter.name);
  }
  // To the next event that is wanted, from `row` on, through chunks and tracks.
  int Settle();
};

int EventCursor::Start() {
  tracks.clear();
  chunks.clear();
  batch.events.clear();
  track = chunk = row = 0;
  rowid = 1;
  if (filter.name && *filter.name == 0) return SQLITE_OK;
  if (int code = ReadTracks(); code != SQLITE_OK) return code;
  if (tracks.empty()) return SQLITE_OK;
  if (int code = ReadChunkList(); code != SQLITE_OK) return code;
  return Settle();
}

int EventCursor::ReadTracks() {
  sqlite3_stmt* prepared = nullptr;
  if (sqlite3_prepare_v2(
          table->db,
          "SELECT track_id, kind, track.run_id, host, pid, tid, thread.name, pool, worker_index "
          "FROM track JOIN thread USING (thread_id) JOIN process USING (session_id) "
          "ORDER BY track_id",
          -1, &prepared, nullptr) != SQLITE_OK) {
    return table->Fail("this database is not a Poolscope store");
  }
  Statement statement(prepared);
  int code;
  while ((code = sqlite3_step(prepared)) == SQLITE_ROW) {
    Track found;
    int64_t kind;
    statement.Read(0, found.track_id);
    statement.Read(1, kind);
    statement.Read(2, found.run_id);
    statement.Read(3, found.host);
    statement.Read(4, found.pid);
    statement.Read(5, found.tid);
    statement.Read(6, found.thread);
    statement.Read(7, found.pool);
    statement.Read(8, found.worker_index);
    const char* kind_name = kind >= 1 && kind <= 3 ? kKinds[kind] : "";
    if (filter.run_id && *filter.run_id != found.run_id) continue;
    if (filter.pool && *filter.pool != found.pool) continue;
    if (filter.kind && *filter.kind != kind_name) continue;
    if (filter.tid && *filter.tid != found.tid) continue;
    if (filter.track_id && *filter.track_id != found.track_id) continue;
    tracks.push_back(std::move(found));
  }
  if (code != SQLITE_DONE) return table->Fail(sqlite3_errmsg(table->db));
  return SQLITE_OK;
}

bool EventCursor::HoldsName(std::span<const uint8_t> bytes) const {
  if (!filter.name && !filter.category) return true;
  const auto names = DecodeNames(bytes);
  if (!names.ok()) return true;  // reading its events tells what is wrong
  return std::any_of(names->begin(), names->end(), [&](const Store::NameTotal& total) {
    return (!filter.name || total.name == *filter.name) &&
           (!filter.category || total.category == *filter.category);
  });
}

int EventCursor::ReadChunkList() {
  sqlite3_stmt* prepared = nullptr;
  if (sqlite3_prepare_v2(table->db,
                         "SELECT chunk_index, names FROM chunk WHERE track_id = ? AND "
                         "first_ns <= ? AND last_ns >= ? ORDER BY chunk_index",
                         -1, &prepared, nullptr) != SQLITE_OK) {
    return table->Fail(sqlite3_errmsg(table->db));
  }
  Statement statement(prepared);
  statement.Bind(0, tracks[track].track_id);
  statement.Bind(1, filter.start_to);
  statement.Bind(2, std::max(filter.start_from, filter.end_from));
  chunks.clear();
  chunk = 0;
  int code;
  while ((code = sqlite3_step(prepared)) == SQLITE_ROW) {
    if (HoldsName(statement.Blob(1))) chunks.push_back(statement.Integer(0));
  }
  if (code != SQLITE_DONE) return table->Fail(sqlite3_errmsg(table->db));
  return SQLITE_OK;
}

int EventCursor::ReadData(int64_t chunk_index) {
  if (!data) {
    sqlite3_stmt* prepared = nullptr;
    if (sqlite3_prepare_v2(table->db, "SELECT data FROM chunk_data WHERE chunk_key = ?", -1,
                           &prepared, nullptr) != SQLITE_OK) {
      return table->Fail(sqlite3_errmsg(table->db));
    }
    data = Statement(prepared);
  }
  const int64_t track_id = tracks[track].track_id;
  data.Bind(0, track_id << 32 | chunk_index);
  const int code = sqlite3_step(data.get());
  std::string problem;
  if (code == SQLITE_ROW) {
    const Status status = DecodeChunk(data.Blob(0), batch);
    if (!status.ok()) problem = status.error().message;
  } else {
    problem = code == SQLITE_DONE ? "its events are missing" : sqlite3_errmsg(table->db);
  }
  sqlite3_reset(data.get());
  if (problem.empty()) return SQLITE_OK;
  return table->Fail("chunk " + std::to_string(chunk_index) + " of track " +
                     std::to_string(track_id) + ": " + problem);
}

int EventCursor::Settle() {
  while (true) {
    for (; row < batch.events.size(); ++row) {
      if (Wanted()) return SQLITE_OK;
    }
    batch.events.clear();
    row = 0;
    if (chunk < chunks.size()) {
      if (int code = ReadData(chunks[chunk++]); code != SQLITE_OK) return code;
      continue;
    }
    if (++track >= tracks.size()) return SQLITE_OK;
    if (int code = ReadChunkList(); code != SQLITE_OK) return code;
  }
}

// --- The virtual table's methods ---

int Connect(sqlite3* db, void*, int, const char* const*, sqlite3_vtab** table, char**) {
  const int code = sqlite3_declare_vtab(db, kEventTableSql);
  if (code != SQLITE_OK) return code;
  *table = new EventTable(db);
  return SQLITE_OK;
}

int Disconnect(sqlite3_vtab* table) {
  delete static_cast<EventTable*>(table);
  return SQLITE_OK;
}

bool IsEquality(int column) {
  switch (column) {
    case kRunId:
    case kTid:
    case kPool:
    case kTrackId:
    case kKind:
    case kName:
    case kCategory:
      return true;
    default:
      return false;
  }
}

// idxStr: two characters for each argument of xFilter: 'A' + column, then '=', '<' or '>' (bounds
// are taken as if they were inclusive: SQLite checks again).
int BestIndex(sqlite3_vtab*, sqlite3_index_info* info) {
  std::string plan;
  double cost = 1e9, rows = 1e7;
  for (int i = 0; i < info->nConstraint; ++i) {
    const auto& constraint = info->aConstraint[i];
    if (!constraint.usable) continue;
    char op = 0;
    const bool time = constraint.iColumn == kStartNs || constraint.iColumn == kEndNs;
    switch (constraint.op) {
      case SQLITE_INDEX_CONSTRAINT_EQ:
        if (time || IsEquality(constraint.iColumn)) op = '=';
        break;
      case SQLITE_INDEX_CONSTRAINT_GT:
      case SQLITE_INDEX_CONSTRAINT_GE:
        if (time) op = '>';
        break;
      case SQLITE_INDEX_CONSTRAINT_LT:
      case SQLITE_INDEX_CONSTRAINT_LE:
        if (constraint.iColumn == kStartNs) op = '<';
        break;
      default:
        break;
    }
    if (op == 0) continue;
    const char* collation = sqlite3_vtab_collation(info, i);
    if (collation != nullptr && std::strcmp(collation, "BINARY") != 0) continue;
    plan += static_cast<char>('A' + constraint.iColumn);
    plan += op;
    info->aConstraintUsage[i].argvIndex = static_cast<int>(plan.size() / 2);
    cost /= op == '=' ? 10 : 3;
    rows /= op == '=' ? 10 : 3;
  }
  info->idxStr = sqlite3_mprintf("%s", plan.c_str());
  info->needToFreeIdxStr = 1;
  info->estimatedCost = cost;
  info->estimatedRows = static_cast<sqlite3_int64>(std::max(rows, 1.0));
  return info->idxStr == nullptr ? SQLITE_NOMEM : SQLITE_OK;
}

int OpenCursor(sqlite3_vtab* table, sqlite3_vtab_cursor** cursor) {
  *cursor = new EventCursor(static_cast<EventTable*>(table));
  return SQLITE_OK;
}

int CloseCursor(sqlite3_vtab_cursor* cursor) {
  delete static_cast<EventCursor*>(cursor);
  return SQLITE_OK;
}

// A number as a bound of an integer column, rounded outwards by the caller's choice.
std::optional<int64_t> AsBound(sqlite3_value* value, bool up) {
  if (sqlite3_value_type(value) == SQLITE_INTEGER) return sqlite3_value_int64(value);
  if (sqlite3_value_type(value) != SQLITE_FLOAT) return std::nullopt;
  const double real = sqlite3_value_double(value);
  const double rounded = up ? std::ceil(real) : std::floor(real);
  if (!(rounded > -9.2e18)) return INT64_MIN;
  if (!(rounded < 9.2e18)) return INT64_MAX;
  return static_cast<int64_t>(rounded);
}

std::optional<std::string> AsText(sqlite3_value* value) {
  if (sqlite3_value_type(value) != SQLITE_TEXT) return std::nullopt;
  const auto* text = reinterpret_cast<const char*>(sqlite3_value_text(value));
  return std::string(text, static_cast<size_t>(sqlite3_value_bytes(value)));
}

std::optional<int64_t> AsInteger(sqlite3_value* value) {
  if (sqlite3_value_type(value) != SQLITE_INTEGER) return std::nullopt;
  return sqlite3_value_int64(value);
}

void Narrow(Filter& filter, EventTexts& texts, int column, char op, sqlite3_value* value) {
  if (column == kStartNs || column == kEndNs) {
    auto& from = column == kStartNs ? filter.start_from : filter.end_from;
    const auto low = AsBound(value, false), high = AsBound(value, true);
    if (low && op != '<') from = std::max(from, *low);
    if (high && op != '>' && column == kStartNs) filter.start_to = std::min(filter.start_to, *high);
    return;
  }
  switch (column) {
    case kRunId:
      filter.run_id = AsText(value);
      break;
    case kPool:
      filter.pool = AsText(value);
      break;
    case kKind:
      filter.kind = AsText(value);
      break;
    case kTid:
      filter.tid = AsInteger(value);
      break;
    case kTrackId:
      filter.track_id = AsInteger(value);
      break;
    case kCategory:
      filter.category = AsInteger(value);
      break;
    case kName:
      if (const auto text = AsText(value)) filter.name = texts.Find(*text);
      break;
    default:
      break;
  }
}

int FilterRows(sqlite3_vtab_cursor* base, int, const char* plan, int count,
               sqlite3_value** values) {
  auto* cursor = static_cast<EventCursor*>(base);
  cursor->filter = {};
  for (int i = 0; i < count; ++i) {
    Narrow(cursor->filter, cursor->table->texts, plan[2 * i] - 'A', plan[2 * i + 1], values[i]);
  }
  return cursor->Start();
}

int Next(sqlite3_vtab_cursor* base) {
  auto* cursor = static_cast<EventCursor*>(base);
  ++cursor->row;
  ++cursor->rowid;
  return cursor->Settle();
}

int AtEnd(sqlite3_vtab_cursor* cursor) { return static_cast<EventCursor*>(cursor)->done(); }

int RowId(sqlite3_vtab_cursor* cursor, sqlite3_int64* rowid) {
  *rowid = static_cast<EventCursor*>(cursor)->rowid;
  return SQLITE_OK;
}

void ResultText(sqlite3_context* context, const std::string& text) {
  sqlite3_result_text(context, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

void ResultName(sqlite3_context* context, EventTexts& texts, uint32_t id) {
  if (const std::string* text = texts.Text(id)) ResultText(context, *text);
}

// Results that are not set are NULL.
int Column(sqlite3_vtab_cursor* base, sqlite3_context* context, int column) {
  auto* cursor = static_cast<EventCursor*>(base);
  const Track& track = cursor->tracks[cursor->track];
  const Event& event = cursor->event();
  EventTexts& texts = cursor->table->texts;
  switch (column) {
    case kRunId:
      ResultText(context, track.run_id);
      break;
    case kHost:
      ResultText(context, track.host);
      break;
    case kPid:
      sqlite3_result_int64(context, track.pid);
      break;
    case kTid:
      sqlite3_result_int64(context, track.tid);
      break;
    case kThread:
      ResultText(context, track.thread);
      break;
    case kPool:
      ResultText(context, track.pool);
      break;
    case kWorkerIndex:
      sqlite3_result_int64(context, track.worker_index);
      break;
    case kTrackId:
      sqlite3_result_int64(context, track.track_id);
      break;
    case kKind: {
      const auto kind = static_cast<size_t>(event.kind);
      if (kind < std::size(kKinds)) {
        sqlite3_result_text(context, kKinds[kind], -1, SQLITE_STATIC);
      }
      break;
    }
    case kDomain:
      ResultName(context, texts, event.domain);
      break;
    case kName:
      ResultName(context, texts, event.name);
      break;
    case kCategory:
      sqlite3_result_int64(context, event.category);
      break;
    case kCategoryName: {
      const std::string* domain = texts.Text(event.domain);
      if (domain != nullptr && *domain == kPoolscopeDomain && event.category != 0 &&
          event.category < std::size(kCategories)) {
        sqlite3_result_text(context, kCategories[event.category], -1, SQLITE_STATIC);
      }
      break;
    }
    case kStartNs:
      sqlite3_result_int64(context, event.start_ns);
      break;
    case kEndNs:
      sqlite3_result_int64(context, event.end_ns());
      break;
    case kDurationNs:
      sqlite3_result_int64(context, event.duration_ns);
      break;
    case kDepth:
      sqlite3_result_int64(context, event.depth);
      break;
    case kValue:
      if (event.flags & kEventFloat) {
        sqlite3_result_double(context, std::bit_cast<double>(event.value));
      } else {
        sqlite3_result_int64(context, static_cast<int64_t>(event.value));
      }
      break;
    case kFlags:
      sqlite3_result_int64(context, event.flags);
      break;
    case kPayload: {
      const std::string json = texts.Payload(cursor->batch, event);
      if (!json.empty()) ResultText(context, json);
      break;
    }
    default:
      break;
  }
  return SQLITE_OK;
}

const sqlite3_module kEventModule = [] {
  sqlite3_module module{};
  module.xConnect = Connect;  // no xCreate: the table is there by its name alone
  module.xBestIndex = BestIndex;
  module.xDisconnect = Disconnect;
  module.xOpen = OpenCursor;
  module.xClose = CloseCursor;
  module.xFilter = FilterRows;
  module.xNext = Next;
  module.xEof = AtEnd;
  module.xColumn = Column;
  module.xRowid = RowId;
  return module;
}();

}  // namespace

int RegisterEventTable(sqlite3* db) {
  return sqlite3_create_module(db, "event", &kEventModule, nullptr);
}

}  // namespace poolscope
