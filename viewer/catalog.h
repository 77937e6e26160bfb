#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "store/store.h"
#include "viewer/lanes.h"
#include "viewer/meaning.h"

namespace poolscope {

// What a run consists of: read once and again when a live store has grown. Small whatever the
// number of events; immutable once made.
struct Catalog {
  RunRow run;
  std::vector<Lane> lanes;
  std::vector<PoolRow> pools;
  std::vector<WorkerRow> workers;
  std::vector<LinkRow> links;
  std::vector<EventLossRow> losses;
  std::vector<ThreadRow> threads;
  std::vector<TrackRow> tracks;
  int64_t begin_ns = 0;  // the run's first and newest time; never an empty span
  int64_t end_ns = 1;
  Vocabulary words;
  // Streams (ids of threads) that are the worker's whom a mapping gave them, whoever launches.
  std::set<int64_t> given_streams;
  std::unordered_map<uint32_t, std::string> symbols;  // by name of C++: what compilers write
  // By track, and by session and the system's id: places in `threads`.
  std::unordered_map<int64_t, size_t> thread_of_track;
  std::map<std::pair<std::string, int64_t>, size_t> thread_of_tid;
  std::vector<int64_t> clock_offsets_ns;  // of each host: timeline - CLOCK_MONOTONIC

  const LinkRow* FindLink(const std::string& link) const;
  const WorkerRow* FindWorker(const std::string& pool, int64_t index) const;
  const ThreadRow* ThreadOf(int64_t track_id) const;
  const ThreadRow* FindThread(const std::string& session_id, int64_t tid) const;
  // CLOCK_MONOTONIC of the host that recorded an event at `near_ns`, which it precedes, on the
  // run's timeline. None: not known, or of another host's clock.
  std::optional<int64_t> FromMonotonic(uint64_t monotonic_ns, int64_t near_ns) const;
  // The thread that launched what a device did, where it is a worker's and decides whose it is.
  const ThreadRow* LauncherOf(const ThreadRow& stream, const Event& event,
                              const EventBatch& batch) const;
};

// `before` spares reading chunk headers of tracks that it knows; may be null.
Result<std::shared_ptr<const Catalog>> ReadCatalog(const Store& store, const std::string& run_id,
                                                   const Catalog* before);

}  // namespace poolscope
