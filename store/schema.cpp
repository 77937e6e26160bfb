#include "store/schema.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <vector>

#include "store/tables.h"

namespace poolscope {
namespace {

template <typename T>
struct SqlType;
template <>
struct SqlType<std::string> {
  static constexpr char kText[] = "TEXT NOT NULL";
};
template <>
struct SqlType<int64_t> {
  static constexpr char kText[] = "INTEGER NOT NULL";
};
template <>
struct SqlType<uint32_t> : SqlType<int64_t> {};
template <>
struct SqlType<bool> : SqlType<int64_t> {};
template <>
struct SqlType<double> {  // NULL is NaN
  static constexpr char kText[] = "REAL";
};
template <>
struct SqlType<std::optional<double>> : SqlType<double> {};
template <>
struct SqlType<std::optional<int64_t>> {
  static constexpr char kText[] = "INTEGER";
};

struct ColumnText {
  std::string name, type, meaning;
  bool key;
};

class Collector {
 public:
  template <typename T>
  void Key(std::string_view name, const T&, std::string_view meaning) {
    columns.push_back({std::string(name), SqlType<T>::kText, std::string(meaning), true});
  }
  template <typename T>
  void operator()(std::string_view name, const T&, std::string_view meaning) {
    columns.push_back({std::string(name), SqlType<T>::kText, std::string(meaning), false});
  }
  std::vector<ColumnText> columns;
};

struct TableText {
  std::string name, meaning, constraint;
  std::vector<ColumnText> columns;
};

// Tables that no row type describes.
const std::vector<TableText>& OwnTables() {
  static const std::vector<TableText> tables = {
      {"meta",
       "facts about the store itself",
       "",
       {{"key", "TEXT NOT NULL", "'format': version of the schema", true},
        {"value", "TEXT NOT NULL", "as text", false}}},
      {"string",
       "every text that events use, once",
       "",
       {{"string_id", "INTEGER", "from 1", true},
        {"text", "TEXT NOT NULL UNIQUE", "UTF-8", false}}},
      {"payload_field",
       "fields of the payload schemas",
       "",
       {{"schema", "INTEGER NOT NULL", "string id of the schema's name", true},
        {"position", "INTEGER NOT NULL", "from 0", true},
        {"name", "TEXT NOT NULL", "of the field", false},
        {"type", "TEXT NOT NULL",
         "u, i, d (double) or s (string id); U, I, D or S: an array, the only field", false}}},
      {"chunk",
       "what a chunk of events holds, without its events",
       "",
       {{"track_id", "INTEGER NOT NULL", "its track", true},
        {"chunk_index", "INTEGER NOT NULL", "from 0, in the order of recording", true},
        {"first_ns", "INTEGER NOT NULL", "smallest start", false},
        {"last_ns", "INTEGER NOT NULL", "largest end", false},
        {"events", "INTEGER NOT NULL", "how many", false},
        {"busy_ns", "INTEGER NOT NULL", "union of its outermost ranges", false},
        {"max_depth", "INTEGER NOT NULL", "deepest nesting level", false},
        {"names", "BLOB NOT NULL", "events and time by name (chunk_summary.h)", false},
        {"buckets", "BLOB NOT NULL", "64-part picture for drawing (chunk_summary.h)", false},
        {"min_value", "REAL", "smallest value, counters only", false},
        {"max_value", "REAL", "largest value, counters only", false}}},
      {"chunk_data",
       "the events of the chunks",
       "",
       {{"chunk_key", "INTEGER", "track_id * 2^32 + chunk_index", true},
        {"data", "BLOB NOT NULL", "columnar chunk (chunk_codec.h)", false}}},
  };
  return tables;
}

std::vector<TableText> AllTables() {
  std::vector<TableText> tables = OwnTables();
  ForEachTable([&]<typename Row>(std::type_identity<Row>) {
    Collector collector;
    Row row;
    Table<Row>::Describe(collector, row);
    tables.push_back({Table<Row>::kName, Table<Row>::kMeaning, "", std::move(collector.columns)});
  });
  for (TableText& table : tables) {
    if (table.name == "thread") table.constraint = "UNIQUE (session_id, tid)";
    if (table.name == "track") table.constraint = "UNIQUE (run_id, thread_id, kind, counter)";
  }
  return tables;
}

// A single INTEGER key is the rowid; other keys make the table itself the index.
std::string CreateTable(const TableText& table) {
  std::vector<std::string> keys;
  for (const ColumnText& column : table.columns) {
    if (column.key) keys.push_back(column.name);
  }
  const bool rowid = keys.size() == 1 && table.columns[0].type.starts_with("INTEGER");
  std::string sql = fmt::format("CREATE TABLE {} (  -- {}\n", table.name, table.meaning);
  for (const ColumnText& column : table.columns) {
    const std::string type = rowid && column.key ? "INTEGER PRIMARY KEY" : column.type;
    const bool last = rowid && table.constraint.empty() && &column == &table.columns.back();
    sql += fmt::format("  {} {}{}  -- {}\n", column.name, type, last ? "" : ",", column.meaning);
  }
  if (!rowid) sql += fmt::format("  PRIMARY KEY ({})\n", fmt::join(keys, ", "));
  if (!table.constraint.empty()) sql += "  " + table.constraint + "\n";
  return sql + (rowid ? ");\n" : ") WITHOUT ROWID;\n");
}

}  // namespace

std::string_view StateColumn(size_t state) {
  static const auto names = [] {
    std::array<std::string, static_cast<size_t>(State::kCount)> made;
    for (size_t i = 0; i < made.size(); ++i) {
      made[i] = std::string(StateName(static_cast<State>(i))) + "_ns";
    }
    return made;
  }();
  return names[state];
}

std::string_view FaultColumn(size_t fault) {
  static constexpr std::array<std::string_view, 4> kNames = {"retries", "corrupt", "duplicates",
                                                             "lost"};
  return kNames[fault];
}

std::string_view StageColumn(size_t stage) {
  static constexpr std::string_view kNames[] = {"queued_ns", "encode_ns", "wire_ns", "decode_ns",
                                                "apply_ns"};
  return kNames[stage];
}

const char* StateName(State state) {
  switch (state) {
    case State::kUnknown:
      return "unknown";
    case State::kBusy:
      return "busy";
    case State::kBusyDiscarded:
      return "busy_discarded";
    case State::kBlockedLink:
      return "blocked_link";
    case State::kWaitCredit:
      return "wait_credit";
    case State::kWaitLink:
      return "wait_link";
    case State::kWaitPeer:
      return "wait_peer";
    case State::kHostBound:
      return "host_bound";
    case State::kInput:
      return "input";
    case State::kOtherWork:
      return "other_work";
    case State::kIdle:
      return "idle";
    case State::kCount:
      break;
  }
  return "invalid";
}

std::string SchemaSql() {
  std::string sql;
  for (const TableText& table : AllTables()) sql += CreateTable(table);
  sql += "CREATE INDEX process_run ON process (run_id);\n";
  return sql;
}

std::string SchemaAsMarkdown() {
  std::string text;
  for (const TableText& table : AllTables()) {
    text += fmt::format("### `{}`: {}\n\n| column | type | meaning |\n|---|---|---|\n", table.name,
                        table.meaning);
    for (const ColumnText& column : table.columns) {
      const bool nullable = column.type.find("NOT NULL") == std::string::npos && !column.key;
      text += fmt::format("| `{}`{} | {}{} | {} |\n", column.name, column.key ? " (key)" : "",
                          column.type.substr(0, column.type.find(' ')), nullable ? " or NULL" : "",
                          column.meaning);
    }
    text += "\n";
  }
  return text;
}

}  // namespace poolscope
