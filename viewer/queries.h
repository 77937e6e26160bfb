#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viewer/catalog.h"
#include "viewer/chunk_cache.h"

namespace poolscope {

// What the panels ask beyond pictures. All run on the model's reader thread.

// One stage of a message, wherever it was recorded.
struct MessageStage {
  uint64_t stage = 0;  // Stage
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int lane = -1;  // of the catalog: where an arrow ends; -1 none
  std::string place;
};

struct EventDetails {
  std::string name;
  std::string kind;   // "work", "transfer, wire stage", "wait for link"
  std::string place;  // worker or thread
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint32_t category = 0;
  std::vector<std::pair<std::string, std::string>> fields;  // payload, by name
  std::vector<MessageStage> stages;                         // of the message, by begin
  int sender_lane = -1;  // of the worker that handed the message over; -1 not known
};
struct EventKey {
  int lane = -1;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint32_t name = 0;
  bool operator==(const EventKey&) const = default;
};
// None where no event of the lane has that key.
Result<std::optional<EventDetails>> FindDetails(const Store& store, ChunkCache& cache,
                                                const Catalog& catalog, const EventKey& key);

// Ranges by name of the events that begin or end within the span; chunks that lie wholly in it are
// counted from their totals, without decoding.
struct NameStatistics {
  std::string name;
  uint32_t name_id = 0;
  uint32_t category = 0;
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
