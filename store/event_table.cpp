#include "store/event_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "store/event_reader.h"
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

constexpr const char* kCategories[] = {nullptr,        "work",        "transfer",   "wait_link",
                                       "blocked_link", "wait_credit", "wait_peer",  "input",
                                       "other_work",   "step",        "discard",    "phase",
                                       "host",         "fault",       "wait_device"};
static_assert(std::size(kCategories) == static_cast<size_t>(kLastCategory) + 1);

struct EventTable : sqlite3_vtab {
  explicit EventTable(sqlite3* connection) : sqlite3_vtab{}, db(connection), texts(connection) {}
  sqlite3* db;
  EventTexts texts;
};

struct EventCursor : sqlite3_vtab_cursor {
  explicit EventCursor(EventTable* owner)
      : sqlite3_vtab_cursor{}, table(owner), reader(owner->db) {}
  EventTable* table;
  EventReader reader;
  int64_t rowid = 0;

  // SQLite's code for what the reader did.
  int Outcome(bool ok) {
    if (ok) return SQLITE_OK;
    sqlite3_free(table->zErrMsg);
    table->zErrMsg = sqlite3_mprintf("%s", reader.problem().c_str());
    return SQLITE_ERROR;
  }
};

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

// SQLite checks every row again, so the filter may let more pass than was asked, never less.
void Narrow(EventFilter& filter, EventTexts& texts, int column, char op, sqlite3_value* value) {
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
  EventFilter filter;
  for (int i = 0; i < count; ++i) {
    Narrow(filter, cursor->table->texts, plan[2 * i] - 'A', plan[2 * i + 1], values[i]);
  }
  cursor->rowid = 1;
  return cursor->Outcome(cursor->reader.Start(std::move(filter)));
}

int Next(sqlite3_vtab_cursor* base) {
  auto* cursor = static_cast<EventCursor*>(base);
  ++cursor->rowid;
  return cursor->Outcome(cursor->reader.Next());
}

int AtEnd(sqlite3_vtab_cursor* cursor) { return static_cast<EventCursor*>(cursor)->reader.done(); }

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
  const EventReader& reader = cursor->reader;
  const EventReader::Track& track = reader.track();
  const Event& event = reader.event();
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
    case kKind:
      sqlite3_result_text(context, EventKindName(static_cast<int64_t>(event.kind)), -1,
                          SQLITE_STATIC);
      break;
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
      const std::string json = texts.Payload(reader.batch(), event);
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
