#pragma once

#include <cstdint>
#include <string>

namespace poolscope {

// PRAGMA application_id of a store, so that no other SQLite file is taken for one ("PScp").
inline constexpr int32_t kApplicationId = 0x50536370;
// Of the tables and of what their blobs hold. Kept in meta('format').
inline constexpr int kStoreFormat = 8;

// Everything a new store is created with, comments included: `.schema` shows them.
std::string SchemaSql();

// The columns of one table as they stand in docs/store.md.
std::string SchemaAsMarkdown();

}  // namespace poolscope
