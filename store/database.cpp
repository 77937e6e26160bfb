#include "store/database.h"

#include <fmt/format.h>

namespace poolscope {
namespace {

constexpr int kBusyTimeoutMs = 5000;

// A path as SQLite's URI wants it: everything that has a meaning there is escaped.
std::string AsUri(const std::string& path, const char* parameters) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    } else {
      uri += c;
    }
  }
  return uri + parameters;
}

}  // namespace

Result<Database> Database::Open(const std::filesystem::path& path, Access access) {
  const std::string file = path.string();
  // An absolute path: a relative one may look like a URI's authority, and the folder may change.
  std::error_code ignored;
  const std::string absolute = std::filesystem::absolute(path, ignored).string();
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI;
  flags |=
      access == Access::kWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  const char* parameters = access == Access::kReadImmutable ? "?immutable=1" : "";
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(AsUri(absolute, parameters).c_str(), &db, flags, nullptr);
  Database database(db, file);
  if (code != SQLITE_OK) return database.LastError("opening");
  sqlite3_extended_result_codes(db, 1);
  sqlite3_busy_timeout(db, kBusyTimeoutMs);
  return database;
}

Database::Database(Database&& other) noexcept
    : db_(std::exchange(other.db_, nullptr)),
      file_(std::move(other.file_)),
      statements_(std::move(other.statements_)) {}

Database& Database::operator=(Database&& other) noexcept {
  std::swap(db_, other.db_);
  std::swap(file_, other.file_);
  std::swap(statements_, other.statements_);
  return *this;
}

Database::~Database() {
  statements_.clear();
  sqlite3_close_v2(db_);
}

Status Database::Execute(const char* sql) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return LastError("writing");
  return {};
}

Result<Database::Use> Database::Prepare(std::string_view sql) {
  const auto [found, fresh] = statements_.try_emplace(std::string(sql));
  if (fresh) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                           &statement, nullptr) != SQLITE_OK) {
      statements_.erase(found);
      return LastError("reading");
    }
    found->second = Statement(statement);
  }
  return Use(*this, found->second);
}

Error Database::LastError(std::string_view doing) const {
  const int code = db_ == nullptr ? SQLITE_NOMEM : sqlite3_extended_errcode(db_);
  const char* text = db_ == nullptr ? "no memory" : sqlite3_errmsg(db_);
  switch (code & 0xff) {
    case SQLITE_FULL:
      return {fmt::format("store {}: the disk is full; free some space", file_)};
    case SQLITE_BUSY:
      return {
          fmt::format("store {}: another process is writing it; wait for it or stop it", file_)};
    case SQLITE_NOTADB:
      return {fmt::format("{} is not a Poolscope store", file_)};
    case SQLITE_CORRUPT:
      return {fmt::format("store {} is damaged ({}); `sqlite3 {} .recover` may save what is left",
                          file_, text, file_)};
    case SQLITE_READONLY:
      return {fmt::format("store {} cannot be written; check its permissions", file_)};
    case SQLITE_CANTOPEN:
      return {fmt::format("cannot open store {}; check that its folder exists and its permissions",
                          file_)};
    case SQLITE_IOERR:
      return {fmt::format("store {}: input/output error while {} ({})", file_, doing, text)};
    default:
      return {fmt::format("store {}: {} failed: {}", file_, doing, text)};
  }
}

Result<bool> Database::Use::Step(std::string_view doing) {
  const int code = sqlite3_step(statement_->get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_->LastError(doing);
}

Status Database::Use::Run(std::string_view doing) {
  const auto row = Step(doing);
  if (!row.ok()) return row.error();
  return {};
}

}  // namespace poolscope
