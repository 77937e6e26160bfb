#pragma once

#include "store/database.h"

namespace poolscope {

// Brings a store of an older format to kStoreFormat, in one transaction: all of it or nothing.
// Forward only. docs/store.md states the policy.
Status Migrate(Database& database, int from_format);

}  // namespace poolscope
