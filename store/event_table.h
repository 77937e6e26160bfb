#pragma once

#include "store/sqlite_api.h"

namespace poolscope {

// Makes the events of a store readable as the table `event` of that connection: an eponymous
// virtual table, one row an event, its columns as in kEventTableSql. It decodes only chunks that
// can hold what is asked: equality on run_id, track_id, tid, pool, kind, name and category, and
// bounds on start_ns and end_ns, choose the chunks. Returns SQLite's code.
int RegisterEventTable(sqlite3* db);

inline constexpr char kEventTableSql[] =
    "CREATE TABLE event ("
    "run_id TEXT, host TEXT, pid INTEGER, tid INTEGER, thread TEXT, pool TEXT, "
    "worker_index INTEGER, track_id INTEGER, "
    "kind TEXT, domain TEXT, name TEXT, category INTEGER, category_name TEXT, "
    "start_ns INTEGER, end_ns INTEGER, duration_ns INTEGER, depth INTEGER, value NUMERIC, "
    "flags INTEGER, payload TEXT)";

}  // namespace poolscope
