#include "store/store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <system_error>

#include "store/event_table.h"
#include "store/migrations.h"
#include "store/schema.h"
#include "store/store_impl.h"

namespace poolscope {
namespace {

constexpr uintmax_t kSmallestPage = 512;

std::filesystem::path WalOf(const std::filesystem::path& path) { return path.string() + "-wal"; }

// Whether readers may take locks, in the file that SQLite shares for them beside the log.
bool MayLock(const std::filesystem::path& path) {
  const std::string locks = path.string() + "-shm";
  if (access(locks.c_str(), F_OK) == 0) return access(locks.c_str(), R_OK | W_OK) == 0;
  return access(std::filesystem::absolute(path).parent_path().c_str(), W_OK) == 0;
}

// What can be told without opening the file: opening and closing it ourselves would release the
// locks that this process's other connections hold on it.
Status CheckPath(const std::filesystem::path& path, Store::Mode mode) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status)) {
    return Error{fmt::format("store {} is a folder; name a file", path.string())};
  }
  const bool exists = std::filesystem::exists(status);
  if (!exists && mode == Store::Mode::kWrite) return {};
  if (!exists && error && error != std::errc::no_such_file_or_directory) {
    return Error{fmt::format("cannot open store {}: {}", path.string(), error.message())};
  }
  if (!exists) {
    return Error{fmt::format("no store {}; `poolscope run --store {} -- CMD` makes one",
                             path.string(), path.string())};
  }
  if (!std::filesystem::is_regular_file(status)) {
    return Error{fmt::format("store {} is not a regular file", path.string())};
  }
  const auto size = std::filesystem::file_size(path, error);
  if (size == 0 && mode == Store::Mode::kRead && !std::filesystem::exists(WalOf(path), error)) {
    return Error{fmt::format("{} is empty, not a Poolscope store", path.string())};
  }
  // SQLite takes a file that is smaller than its smallest page for an empty one and overwrites it.
  if (size > 0 && size < kSmallestPage) {
    return Error{fmt::format("{} is not a Poolscope store", path.string())};
  }
  return {};
}

}  // namespace

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

Store::~Store() {
  if (impl_ != nullptr && impl_->in_transaction) Rollback();
}

Result<Store> Store::Open(const std::filesystem::path& path, Mode mode) {
  if (Status status = CheckPath(path, mode); !status.ok()) return status.error();
  auto impl = mode == Mode::kRead ? Impl::OpenForReading(path)
                                  : Impl::OpenAs(path, Database::Access::kWrite);
  if (!impl.ok()) return impl.error();
  return Store(std::move(*impl));
}

Store::Impl::Stamp Store::Impl::StampOf(const std::filesystem::path& path) {
  std::error_code ignored;
  return {std::filesystem::last_write_time(path, ignored),
          std::filesystem::file_size(path, ignored)};
}

Result<std::unique_ptr<Store::Impl>> Store::Impl::OpenAs(const std::filesystem::path& path,
                                                         Database::Access access) {
  const Stamp stamp = StampOf(path);
  auto database = Database::Open(path, access);
  if (!database.ok()) return database.error();
  auto impl = std::make_unique<Impl>(
      path, access == Database::Access::kWrite ? Mode::kWrite : Mode::kRead, std::move(*database));
  impl->immutable = access == Database::Access::kReadImmutable;
  impl->stamp = stamp;
  if (Status status = impl->Check(); !status.ok()) return status.error();
  if (Status status = impl->Prepare(); !status.ok()) return status.error();
  return impl;
}

// With no log beside it nobody is writing, and reading it as immutable creates nothing. With a log
// its locks are needed; where they cannot be had (read-only media) the log is left unread.
Result<std::unique_ptr<Store::Impl>> Store::Impl::OpenForReading(
    const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(WalOf(path), ignored)) {
    return OpenAs(path, Database::Access::kReadImmutable);
  }
  auto impl = OpenAs(path, Database::Access::kRead);
  if (impl.ok() || MayLock(path)) return impl;
  auto without_log = OpenAs(path, Database::Access::kReadImmutable);
  if (!without_log.ok()) return impl;
  (*without_log)->without_log = true;
  return without_log;
}

Result<int64_t> Store::Impl::Pragma(const char* sql) {
  auto use = db.Prepare(sql);
  if (!use.ok()) return use.error();
  const auto row = use->Step("reading");
  if (!row.ok()) return row.error();
  return *row ? (*use)->Integer(0) : 0;
}

Status Store::Impl::Check() {
  const auto tables = Pragma("SELECT count(*) FROM sqlite_master");
  if (!tables.ok()) return tables.error();
  const auto application = Pragma("PRAGMA application_id");
  if (!application.ok()) return application.error();
  if (*tables == 0 && *application == 0 && mode == Mode::kWrite) return CreateSchema();
  if (*application != kApplicationId) {
    return Error{fmt::format("{} is not a Poolscope store", path.string())};
  }
  const auto format = ReadFormat(db);
  if (!format.ok()) return format.error();
  if (*format < kStoreFormat) {
    return mode == Mode::kRead ? ReadAsCurrent(db, *format) : Migrate(db);
  }
  return {};
}

Status Store::Impl::CreateSchema() {
  // Two programs may create it at once: the second finds it made.
  if (Status status = db.Execute("PRAGMA journal_mode = WAL; BEGIN IMMEDIATE"); !status.ok()) {
    return status;
  }
  const auto tables = Pragma("SELECT count(*) FROM sqlite_master");
  if (tables.ok() && *tables > 0) {
    if (Status status = db.Execute("COMMIT"); !status.ok()) return status;
    return Check();
  }
  const std::string sql =
      fmt::format("PRAGMA application_id = {}; {} INSERT INTO meta VALUES ('format', '{}'); COMMIT",
                  kApplicationId, SchemaSql(), kStoreFormat);
  if (Status status = db.Execute(sql.c_str()); !status.ok()) {
    (void)db.Execute("ROLLBACK");
    return status;
  }
  return {};
}

Status Store::Impl::Prepare() {
  if (RegisterEventTable(db.get()) != SQLITE_OK) return db.LastError("opening");
  if (mode == Mode::kRead) return {};
  // NORMAL: a commit reaches the kernel before it returns, so it survives the death of any process;
  // only a power failure may take back the newest commits (never half of one). FULL would wait for
  // the disk at each commit. The log is copied into the file every 16 MiB.
  if (Status status = db.Execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                                 "PRAGMA wal_autocheckpoint = 4096;"
                                 "PRAGMA journal_size_limit = 67108864;"
                                 "PRAGMA cache_size = -16384");
      !status.ok()) {
    return status;
  }
  // A file that cannot be written must say so now, not at the first commit.
  return db.Execute("BEGIN IMMEDIATE; ROLLBACK");
}

Status Store::Impl::Refresh() {
  if (!immutable) return {};
  std::error_code ignored;
  const bool writer = !without_log && std::filesystem::exists(WalOf(path), ignored);
  if (!writer && StampOf(path) == stamp) return {};
  auto opened = OpenForReading(path);
  if (!opened.ok()) return opened.error();
  const auto version = Pragma("PRAGMA data_version");
  version_base += 1 + (version.ok() ? *version : 0);
  std::swap(db, (*opened)->db);
  immutable = (*opened)->immutable;
  without_log = (*opened)->without_log;
  stamp = (*opened)->stamp;
  return {};
}

const std::filesystem::path& Store::path() const { return impl_->path; }
void* Store::sqlite() const { return impl_->db.get(); }

Status Store::Impl::Note(Status status) {
  if (!status.ok() && in_transaction && !failed) failed = status.error();
  return status;
}

Status Store::Impl::MayWrite(const char* what) const {
  if (mode == Mode::kRead) {
    return Error{
        fmt::format("store {} is open for reading; {} needs writing", path.string(), what)};
  }
  if (failed) return *failed;
  return {};
}

void Store::Impl::ForgetTransaction() {
  for (const uint32_t id : new_strings) {
    const auto found = texts.find(id);
    if (found == texts.end()) continue;
    string_ids.erase(found->second);
    texts.erase(found);
  }
  for (const int64_t track : touched_tracks) unfinished.erase(track);
  new_strings.clear();
  touched_tracks.clear();
  in_transaction = false;
  failed.reset();
}

void Store::Impl::ForgetCaches() {
  string_ids.clear();
  texts.clear();
  unfinished.clear();
}

Status Store::Begin() {
  Impl& impl = *impl_;
  if (Status status = impl.MayWrite("Begin"); !status.ok()) return status;
  if (impl.in_transaction) {
    return Error{fmt::format("store {}: Begin inside a transaction", impl.path.string())};
  }
  if (Status status = impl.db.Execute("BEGIN IMMEDIATE"); !status.ok()) return status;
  // Another writer may have been here: what was cached may no longer be so.
  const auto version = impl.Pragma("PRAGMA data_version");
  if (!version.ok()) {
    (void)impl.db.Execute("ROLLBACK");
    return version.error();
  }
  if (*version != impl.others_version) impl.ForgetCaches();
  impl.others_version = *version;
  impl.in_transaction = true;
  return {};
}

Status Store::Checkpoint() {
  if (Status status = impl_->MayWrite("Checkpoint"); !status.ok()) return status;
  return impl_->db.Execute("PRAGMA wal_checkpoint(TRUNCATE)");
}

Status Store::Commit() {
  Impl& impl = *impl_;
  if (!impl.in_transaction) {
    return Error{fmt::format("store {}: Commit outside a transaction", impl.path.string())};
  }
  Status status = impl.failed ? Status(*impl.failed) : impl.WriteUnfinished();
  if (status.ok()) status = impl.db.Execute("COMMIT");
  if (!status.ok()) {
    Rollback();
    return status;
  }
  impl.own_commits += 1;
  impl.new_strings.clear();
  impl.touched_tracks.clear();
  impl.in_transaction = false;
  return {};
}

void Store::Rollback() {
  if (!impl_->in_transaction) return;
  // SQLite may have rolled back by itself (a full disk); then this fails, which is as good.
  if (!sqlite3_get_autocommit(impl_->db.get())) (void)impl_->db.Execute("ROLLBACK");
  impl_->ForgetTransaction();
}

int64_t Store::DataVersion() const {
  if (!impl_->Refresh().ok()) return impl_->version_base;
  const auto version = impl_->Pragma("PRAGMA data_version");
  return impl_->version_base + impl_->own_commits + (version.ok() ? *version : 0);
}

}  // namespace poolscope
