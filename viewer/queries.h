#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viewer/catalog.h"
#include "viewer/chunk_cache.h"
#include "viewer/event_details.h"

namespace poolscope {

// What the panels ask beyond pictures. All run on the model's reader thread.

// Ranges by name of the events that begin or end within the span; chunks that lie wholly in it are
// counted from their totals, without decoding.
struct NameStatistics {
  std::string name;
  uint32_t name_id = 0;
  EventLook look;
  int64_t events = 0;
  int64_t total_ns = 0;
};
Result<std::vector<NameStatistics>> CountNames(const Store& store, ChunkCache& cache,
                                               const Catalog& catalog, Store::Span span);

// The first range after (or the last before) `from_ns` whose name contains `text`.
Result<std::optional<EventKey>> FindNext(const Store& store, ChunkCache& cache,
                                         const Catalog& catalog, const std::string& text,
                                         int64_t from_ns, bool forward);
// Whether `name` contains `text`, without regard to the case of ASCII letters.
bool NameMatches(const std::string& name, const std::string& text);

}  // namespace poolscope
