#include "store/migrations.h"

#include <fmt/format.h>

#include "store/schema.h"

namespace poolscope {
namespace {

// From the format that is its position to the next. SQL that was released is never edited: an older
// file must come out the same whichever program migrates it.
struct Step {
  const char* migrate;
  const char* read;  // temporary views that stand in for what `migrate` would change
};
constexpr Step kSteps[] = {
    {nullptr, nullptr},  // format 0 never was
    // 1 -> 2: the range of a counter's values in its chunk; NULL in chunks written before.
    {"ALTER TABLE chunk ADD COLUMN min_value REAL; ALTER TABLE chunk ADD COLUMN max_value REAL;",
     "CREATE TEMP VIEW chunk AS SELECT *, NULL AS min_value, NULL AS max_value FROM main.chunk;"},
    // 2 -> 3: what went wrong on a link's wire.
    {"ALTER TABLE link_window ADD COLUMN retries INTEGER NOT NULL DEFAULT 0; "
     "ALTER TABLE link_window ADD COLUMN corrupt INTEGER NOT NULL DEFAULT 0; "
     "ALTER TABLE link_window ADD COLUMN duplicates INTEGER NOT NULL DEFAULT 0; "
     "ALTER TABLE link_window ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;",
     "CREATE TEMP VIEW link_window AS SELECT *, 0 AS retries, 0 AS corrupt, 0 AS duplicates, "
     "0 AS lost FROM main.link_window;"},
    // 3 -> 4: NCCL's operations by window.
    {"CREATE TABLE collective_window (run_id TEXT NOT NULL, start_ns INTEGER NOT NULL, "
     "communicator TEXT NOT NULL, function TEXT NOT NULL, window_ns INTEGER NOT NULL, "
     "pools TEXT NOT NULL, ranks INTEGER NOT NULL, operations INTEGER NOT NULL, "
     "bytes INTEGER NOT NULL, bus_bytes INTEGER NOT NULL, wire_ns INTEGER NOT NULL, "
     "wait_ns INTEGER NOT NULL, PRIMARY KEY (run_id, start_ns, communicator, function)) "
     "WITHOUT ROWID;",
     "CREATE TEMP VIEW collective_window AS SELECT '' AS run_id, 0 AS start_ns, "
     "'' AS communicator, '' AS function, 0 AS window_ns, '' AS pools, 0 AS ranks, "
     "0 AS operations, 0 AS bytes, 0 AS bus_bytes, 0 AS wire_ns, 0 AS wait_ns WHERE 0;"},
    // 4 -> 5: what is known of processes beside what they recorded.
    {"CREATE TABLE process_fact (session_id TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, "
     "PRIMARY KEY (session_id, key)) WITHOUT ROWID;",
     "CREATE TEMP VIEW process_fact AS SELECT '' AS session_id, '' AS key, '' AS value WHERE 0;"},
    // 5 -> 6: what devices did.
    {"CREATE TABLE device_window (run_id TEXT NOT NULL, start_ns INTEGER NOT NULL, host "
     "TEXT NOT NULL, device INTEGER NOT NULL, source TEXT NOT NULL, window_ns INTEGER NOT "
     "NULL, uuid TEXT NOT NULL, name TEXT NOT NULL, sm_ratio REAL, dram_ratio REAL, "
     "memory_used_bytes INTEGER, memory_bytes INTEGER, sm_hertz INTEGER, memory_hertz "
     "INTEGER, pcie_sent_bytes_per_second INTEGER, pcie_received_bytes_per_second INTEGER, "
     "nvlink_sent_bytes INTEGER, nvlink_received_bytes INTEGER, PRIMARY KEY (run_id, "
     "start_ns, host, device, source)) WITHOUT ROWID;",
     "CREATE TEMP VIEW device_window AS SELECT '' AS run_id, 0 AS start_ns, '' AS host, 0 "
     "AS device, '' AS source, 0 AS window_ns, '' AS uuid, '' AS name, NULL AS sm_ratio, "
     "NULL AS dram_ratio, NULL AS memory_used_bytes, NULL AS memory_bytes, NULL AS "
     "sm_hertz, NULL AS memory_hertz, NULL AS pcie_sent_bytes_per_second, NULL AS "
     "pcie_received_bytes_per_second, NULL AS nvlink_sent_bytes, NULL AS "
     "nvlink_received_bytes, NULL AS tensor_ratio WHERE 0;"},
    // 6 -> 7: what the hardware of devices samples.
    {"ALTER TABLE device_window ADD COLUMN tensor_ratio REAL;",
     "CREATE TEMP VIEW IF NOT EXISTS device_window AS SELECT *, NULL AS tensor_ratio "
     "FROM main.device_window;"},
    // 7 -> 8: names of C++ as compilers write them.
    {"CREATE TABLE symbol (string_id INTEGER NOT NULL, mangled TEXT NOT NULL, PRIMARY KEY "
     "(string_id, mangled)) WITHOUT ROWID;",
     "CREATE TEMP VIEW symbol AS SELECT 0 AS string_id, '' AS mangled WHERE 0;"},
};
static_assert(std::size(kSteps) == kStoreFormat, "one step for each older format");

}  // namespace

Status Migrate(Database& database) {
  if (Status status = database.Execute("BEGIN IMMEDIATE"); !status.ok()) return status;
  const auto format = ReadFormat(database);  // again, now that nobody else can change it
  std::string sql;
  for (int step = format.ok() ? *format : kStoreFormat; step < kStoreFormat; ++step) {
    sql += kSteps[step].migrate;
  }
  sql += fmt::format("UPDATE meta SET value = '{}' WHERE key = 'format'; COMMIT", kStoreFormat);
  Status status = format.ok() ? database.Execute(sql.c_str()) : Status(format.error());
  if (!status.ok()) (void)database.Execute("ROLLBACK");
  return status;
}

Result<int> ReadFormat(Database& database) {
  auto use = database.Prepare("SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'format'");
  if (!use.ok()) return use.error();
  const auto row = use->Step("reading");
  if (!row.ok()) return row.error();
  const int64_t format = *row ? (*use)->Integer(0) : 0;
  if (format < 1) return Error{fmt::format("{} is not a Poolscope store", database.file())};
  if (format > kStoreFormat) {
    return Error{
        fmt::format("store {} has format {}, this program knows up to {}; use a newer "
                    "poolscope",
                    database.file(), format, kStoreFormat)};
  }
  return static_cast<int>(format);
}

Status ReadAsCurrent(Database& database, int from_format) {
  for (int format = from_format; format < kStoreFormat; ++format) {
    if (Status status = database.Execute(kSteps[format].read); !status.ok()) return status;
  }
  return {};
}

}  // namespace poolscope
