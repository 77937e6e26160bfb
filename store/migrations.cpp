#include "store/migrations.h"

#include <fmt/format.h>

#include "store/schema.h"

namespace poolscope {
namespace {

// One step, from the format that is its position (from 1) to the next. SQL that was released is
// never edited: an older file must come out the same whichever program migrates it.
constexpr const char* kSteps[] = {
    nullptr,  // format 0 never was
};
static_assert(std::size(kSteps) == kStoreFormat, "one step for each older format");

}  // namespace

Status Migrate(Database& database, int from_format) {
  if (Status status = database.Execute("BEGIN IMMEDIATE"); !status.ok()) return status;
  for (int format = from_format; format < kStoreFormat; ++format) {
    if (Status status = database.Execute(kSteps[format]); !status.ok()) {
      (void)database.Execute("ROLLBACK");
      return status;
    }
  }
  const std::string sql =
      fmt::format("UPDATE meta SET value = '{}' WHERE key = 'format'; COMMIT", kStoreFormat);
  if (Status status = database.Execute(sql.c_str()); !status.ok()) {
    (void)database.Execute("ROLLBACK");
    return status;
  }
  return {};
}

}  // namespace poolscope
