#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viewer/catalog.h"
#include "viewer/chunk_cache.h"

namespace poolscope {

// What is known of one event: what it carries, the message that it is a part of, who launched it.

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
  std::vector<std::pair<std::string, std::string>> fields;  // payload, by name
  std::vector<MessageStage> stages;                         // of the message, by begin
  int sender_lane = -1;  // of the worker that handed the message over; -1 not known
  // Of the worker that it is for, where nothing was recorded there; else -1.
  int receiver_lane = -1;
  // Of what a device or NCCL did: when the host launched it, and the lane of the thread that did.
  struct Launch {
    int lane = -1;  // of the catalog
    int64_t at_ns = 0;
  };
  std::optional<Launch> launch;
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

}  // namespace poolscope
