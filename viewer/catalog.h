#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/store.h"
#include "viewer/lanes.h"

namespace poolscope {

// What a run consists of: read once and again when a live store has grown. Small whatever the
// number of events; immutable once made.
struct Catalog {
  RunRow run;
  std::vector<Lane> lanes;
  std::vector<PoolRow> pools;
  std::vector<LinkRow> links;
  std::vector<EventLossRow> losses;
  std::vector<ThreadRow> threads;
  std::vector<TrackRow> tracks;
  int64_t begin_ns = 0;  // the run's first and newest time; never an empty span
  int64_t end_ns = 1;
  // String ids of the payload schemas; 0 where the store has none.
  uint32_t transfer_schema = 0, work_schema = 0, wait_schema = 0, step_schema = 0;

  const LinkRow* FindLink(const std::string& link) const;
};

// `before` spares reading chunk headers of tracks that it knows; may be null.
Result<std::shared_ptr<const Catalog>> ReadCatalog(const Store& store, const std::string& run_id,
                                                   const Catalog* before);

}  // namespace poolscope
