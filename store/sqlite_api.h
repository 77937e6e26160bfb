#pragma once

// SQLite's functions: the library's own, or, in the loadable extension, those of the program that
// loads it (sqlite3ext.h turns every sqlite3_ call into one through its table).
#ifdef POOLSCOPE_SQLITE_EXTENSION
#include <sqlite3ext.h>
extern "C" const sqlite3_api_routines* sqlite3_api;
#else
#include <sqlite3.h>
#endif
