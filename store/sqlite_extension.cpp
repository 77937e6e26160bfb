#include "store/event_table.h"

SQLITE_EXTENSION_INIT1

// Entry point of libpoolscope_sqlite.so, by the name that SQLite derives from the file's:
// `.load libpoolscope_sqlite` in the sqlite3 shell, load_extension() elsewhere.
extern "C" __attribute__((visibility("default"))) int sqlite3_poolscopesqlite_init(
    sqlite3* db, char**, const sqlite3_api_routines* api) {
  SQLITE_EXTENSION_INIT2(api);
  return poolscope::RegisterEventTable(db);
}
