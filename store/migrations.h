#pragma once

#include "store/database.h"

namespace poolscope {

// The format of a store. Error: not a store, or newer than kStoreFormat.
Result<int> ReadFormat(Database& database);

// Brings a store of an older format to kStoreFormat, in one transaction: all of it or nothing.
// Forward only. docs/store.md states the policy.
Status Migrate(Database& database);

// Makes a store of an older format readable as if it had been migrated, by temporary views of this
// connection: nothing in the file changes.
Status ReadAsCurrent(Database& database, int from_format);

}  // namespace poolscope
