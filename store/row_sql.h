#pragma once

#include <string>
#include <vector>

#include "store/database.h"
#include "store/tables.h"

// Statements that Table<Row> descriptions give.
namespace poolscope {

class ColumnNames {
 public:
  void Key(std::string_view name, const auto&, std::string_view) { Add(name); }
  void operator()(std::string_view name, const auto&, std::string_view) { Add(name); }
  std::string list, marks;

 private:
  void Add(std::string_view name) {
    list += list.empty() ? "" : ", ";
    list += name;
    marks += marks.empty() ? "?" : ", ?";
  }
};

class RowBinder {
 public:
  explicit RowBinder(Statement& statement) : statement_(statement) {}
  void Key(std::string_view, const auto& value, std::string_view) { statement_.Bind(at_++, value); }
  void operator()(std::string_view, const auto& value, std::string_view) {
    statement_.Bind(at_++, value);
  }

 private:
  Statement& statement_;
  int at_ = 0;
};

class RowReader {
 public:
  explicit RowReader(const Statement& statement) : statement_(statement) {}
  void Key(std::string_view, auto& value, std::string_view) { statement_.Read(at_++, value); }
  void operator()(std::string_view, auto& value, std::string_view) {
    statement_.Read(at_++, value);
  }

 private:
  const Statement& statement_;
  int at_ = 0;
};

template <typename Row>
const std::string& PutSql() {
  static const std::string sql = [] {
    ColumnNames names;
    Row row;
    Table<Row>::Describe(names, row);
    return "INSERT OR REPLACE INTO " + std::string(Table<Row>::kName) + " (" + names.list +
           ") VALUES (" + names.marks + ")";
  }();
  return sql;
}

template <typename Row>
const std::string& SelectSql() {
  static const std::string sql = [] {
    ColumnNames names;
    Row row;
    Table<Row>::Describe(names, row);
    return "SELECT " + names.list + " FROM " + Table<Row>::kName + " ";
  }();
  return sql;
}

template <typename Row>
Status PutRow(Database& db, const Row& row) {
  auto use = db.Prepare(PutSql<Row>());
  if (!use.ok()) return use.error();
  RowBinder binder(**use);
  Table<Row>::Describe(binder, row);
  return use->Run(Table<Row>::kName);
}

// Rows of "SELECT all columns FROM table " + `rest`, with `values` for its question marks.
template <typename Row, typename... Values>
Result<std::vector<Row>> SelectRows(Database& db, const char* rest, const Values&... values) {
  auto use = db.Prepare(SelectSql<Row>() + rest);
  if (!use.ok()) return use.error();
  int at = 0;
  ((*use)->Bind(at++, values), ...);
  std::vector<Row> rows;
  while (true) {
    const auto more = use->Step(Table<Row>::kName);
    if (!more.ok()) return more.error();
    if (!*more) return rows;
    RowReader reader(**use);
    Table<Row>::Describe(reader, rows.emplace_back());
  }
}

}  // namespace poolscope
