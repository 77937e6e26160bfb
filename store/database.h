#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>

#include "store/statement.h"
#include "trace/result.h"

namespace poolscope {

// One open SQLite file. Every Error is one line that names the file and, where there is one, the
// remedy. Used by one thread at a time.
class Database {
 public:
  enum class Access { kRead, kReadImmutable, kWrite };

  static Result<Database> Open(const std::filesystem::path& path, Access access);
  Database(Database&& other) noexcept;
  Database& operator=(Database&& other) noexcept;
  ~Database();

  sqlite3* get() const { return db_; }
  const std::string& file() const { return file_; }

  Status Execute(const char* sql);

  // A statement that is prepared once and kept; `sql` may not be in use by the caller's caller.
  // It is reset and its bindings cleared when the returned Use goes away.
  class Use;
  Result<Use> Prepare(std::string_view sql);

  // The error of the last call that failed.
  Error LastError(std::string_view doing) const;

 private:
  Database(sqlite3* db, std::string file) : db_(db), file_(std::move(file)) {}

  sqlite3* db_ = nullptr;
  std::string file_;
  std::unordered_map<std::string, Statement> statements_;
};

class Database::Use {
 public:
  Use(Database& database, Statement& statement) : database_(&database), statement_(&statement) {}
  Use(Use&& other) noexcept
      : database_(other.database_), statement_(std::exchange(other.statement_, nullptr)) {}
  Use& operator=(Use&&) = delete;
  ~Use() {
    if (statement_ != nullptr) {
      sqlite3_reset(statement_->get());
      sqlite3_clear_bindings(statement_->get());
    }
  }

  Statement* operator->() { return statement_; }
  Statement& operator*() { return *statement_; }
  // True: a row is there.
  Result<bool> Step(std::string_view doing);
  // For statements that give no rows.
  Status Run(std::string_view doing);

 private:
  Database* database_;
  Statement* statement_;
};

}  // namespace poolscope
