#pragma once

#include <string>
#include <vector>

#include "store/store.h"

namespace poolscope {

struct StoredEvent {
  Event event;
  std::string name;
  int64_t track = 0;
  bool operator<(const StoredEvent& other) const { return event.start_ns < other.event.start_ns; }
};

// Every event of the newest run, in the order stored, track by track.
inline std::vector<StoredEvent> ReadAll(const std::filesystem::path& path) {
  std::vector<StoredEvent> found;
  auto store = Store::Open(path, Store::Mode::kRead);
  if (!store.ok()) return found;
  const auto run = store->FindRun("");
  if (!run.ok()) return found;
  (void)store->ReadEvents(run->run_id, {}, [&](const TrackRow& track, const EventBatch& batch) {
    for (const Event& event : batch.events) {
      found.push_back({event, store->String(event.name).ok() ? *store->String(event.name) : "?",
                       track.track_id});
    }
    return true;
  });
  return found;
}

}  // namespace poolscope
