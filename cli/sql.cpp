#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "store/store.h"

namespace poolscope {
namespace {

struct SqlArguments {
  std::string store, sql;
  bool json = false;
};

int Fail(std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::fprintf(stderr, "poolscope sql: %s\n", message.c_str());
  return 1;
}

// A value as one cell of a line: no tabs, line ends or other control characters.
std::string Cell(sqlite3_stmt* statement, int column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL:
      return "";
    case SQLITE_FLOAT:
      return fmt::format("{}", sqlite3_column_double(statement, column));
    case SQLITE_BLOB:
      return fmt::format("({} bytes)", sqlite3_column_bytes(statement, column));
    default:
      break;
  }
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
  std::string cell;
  const int bytes = sqlite3_column_bytes(statement, column);
  for (int i = 0; i < bytes; ++i) {
    if (text[i] == '\t') {
      cell += "\\t";
    } else if (text[i] == '\n') {
      cell += "\\n";
    } else if (static_cast<unsigned char>(text[i]) < 0x20 || text[i] == 0x7f) {
      cell += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    } else {
      cell += text[i];
    }
  }
  return cell;
}

nlohmann::ordered_json JsonValue(sqlite3_stmt* statement, int column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
      return sqlite3_column_int64(statement, column);
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement, column);  // not finite: null
    case SQLITE_NULL:
      return nullptr;
    case SQLITE_BLOB:
      return fmt::format("({} bytes)", sqlite3_column_bytes(statement, column));
    default:
      return std::string(reinterpret_cast<const char*>(sqlite3_column_text(statement, column)),
                         static_cast<size_t>(sqlite3_column_bytes(statement, column)));
  }
}

// Where the rows of one statement go. Every form prints them as they come.
class RowPrinter {
 public:
  virtual ~RowPrinter() = default;
  virtual void Start(sqlite3_stmt* statement) = 0;
  virtual void Row(sqlite3_stmt* statement) = 0;
  virtual void Finish() {}
};

class TabPrinter : public RowPrinter {
 public:
  void Start(sqlite3_stmt* statement) override {
    std::string line;
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      line += fmt::format("{}{}", i > 0 ? "\t" : "", sqlite3_column_name(statement, i));
    }
    std::puts(line.c_str());
  }
  void Row(sqlite3_stmt* statement) override {
    std::string line;
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      line += i > 0 ? "\t" : "";
      line += Cell(statement, i);
    }
    std::puts(line.c_str());
  }
};

// For a terminal. The first rows decide how wide the columns are.
class AlignedPrinter : public RowPrinter {
 public:
  void Start(sqlite3_stmt* statement) override {
    std::vector<std::string> names;
    names.reserve(static_cast<size_t>(sqlite3_column_count(statement)));
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      names.emplace_back(sqlite3_column_name(statement, i));
    }
    rows_ = {names};
    numeric_.assign(names.size(), true);
  }
  void Row(sqlite3_stmt* statement) override {
    std::vector<std::string> cells;
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      const int type = sqlite3_column_type(statement, i);
      numeric_[i] = numeric_[i] && type != SQLITE_TEXT && type != SQLITE_BLOB;
      cells.push_back(Cell(statement, i));
    }
    if (widths_.empty()) {
      rows_.push_back(std::move(cells));
      if (rows_.size() > kMeasuredRows) PrintMeasured();
    } else {
      Print(cells);
    }
  }
  void Finish() override {
    if (widths_.empty()) PrintMeasured();
    widths_.clear();
  }

 private:
  static constexpr size_t kMeasuredRows = 1000;

  static size_t Width(std::string_view text) {
    return static_cast<size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
  }
  void PrintMeasured() {
    widths_.assign(rows_[0].size(), 0);
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], Width(row[i]));
    }
    for (const auto& row : rows_) Print(row);
    rows_.clear();
  }
  void Print(const std::vector<std::string>& row) const {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths_[i] - std::min(widths_[i], Width(row[i])), ' ');
      line += numeric_[i] ? space + row[i] : row[i] + space;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::puts(line.c_str());
  }

  std::vector<std::vector<std::string>> rows_;  // names and first rows, until measured
  std::vector<size_t> widths_;
  std::vector<bool> numeric_;
};

class JsonPrinter : public RowPrinter {
 public:
  void Start(sqlite3_stmt*) override { std::fputs("[", stdout); }
  void Row(sqlite3_stmt* statement) override {
    nlohmann::ordered_json row = nlohmann::ordered_json::object();
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      row[sqlite3_column_name(statement, i)] = JsonValue(statement, i);
    }
    const auto replace = nlohmann::ordered_json::error_handler_t::replace;
    std::fputs(first_ ? "\n" : ",\n", stdout);
    std::fputs(row.dump(-1, ' ', false, replace).c_str(), stdout);
    first_ = false;
  }
  void Finish() override { std::puts(first_ ? "]" : "\n]"); }

 private:
  bool first_ = true;
};

std::unique_ptr<RowPrinter> MakePrinter(bool json) {
  if (json) return std::make_unique<JsonPrinter>();
  if (isatty(STDOUT_FILENO)) return std::make_unique<AlignedPrinter>();
  return std::make_unique<TabPrinter>();
}

// Runs the first statement of `sql`, which it leaves at the next.
int RunStatement(sqlite3* db, const char*& sql, bool json, bool& ran) {
  sqlite3_stmt* prepared = nullptr;
  if (sqlite3_prepare_v2(db, sql, -1, &prepared, &sql) != SQLITE_OK) {
    return Fail(sqlite3_errmsg(db));
  }
  const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(prepared, sqlite3_finalize);
  if (prepared == nullptr) return 0;  // white space or a comment
  ran = true;
  if (!sqlite3_stmt_readonly(prepared)) {
    return Fail("the store is open for reading only; use SELECT");
  }
  const auto printer = MakePrinter(json);
  const bool rows = sqlite3_column_count(prepared) > 0;
  if (rows) printer->Start(prepared);
  int code;
  while ((code = sqlite3_step(prepared)) == SQLITE_ROW) printer->Row(prepared);
  if (rows) printer->Finish();
  if (code != SQLITE_DONE) {
    std::fflush(stdout);
    return Fail(sqlite3_errmsg(db));
  }
  return 0;
}

int RunSql(const SqlArguments& arguments) {
  const auto store = Store::Open(arguments.store, Store::Mode::kRead);
  if (!store.ok()) return Fail(store.error().message);
  auto* db = static_cast<sqlite3*>(store->sqlite());
  bool ran = false;
  for (const char* sql = arguments.sql.c_str(); *sql != '\0';) {
    if (const int code = RunStatement(db, sql, arguments.json, ran); code != 0) return code;
  }
  if (!ran) return Fail("no statement given; try \"SELECT * FROM run\"");
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    return Fail("cannot write to standard output");
  }
  return 0;
}

}  // namespace

void AddSqlCommand(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<SqlArguments>();
  CLI::App* command = app.add_subcommand("sql", "Ask a store in SQL; events are the table `event`");
  command->add_option("store", arguments->store, "the run's store")->required();
  command->add_option("sql", arguments->sql, "one or more SELECT statements")->required();
  command->add_flag("--json", arguments->json, "rows as a JSON array of objects");
  command->callback([arguments, &exit_code] { exit_code = RunSql(*arguments); });
}

}  // namespace poolscope
