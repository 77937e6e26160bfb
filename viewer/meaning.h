#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "store/meaning.h"
#include "store/store.h"

namespace poolscope {

// String ids of what the viewer knows by name; 0 where the store has none.
struct Vocabulary {
  uint32_t poolscope_domain = 0;
  // Payload schemas.
  uint32_t transfer = 0, work = 0, wait = 0, step = 0, mapped = 0, colour = 0;
  uint32_t kernel = 0, copy = 0, memset = 0, synchronization = 0, overhead = 0, nccl = 0;

  static Result<Vocabulary> Read(const Store& store);
};

// What a range is drawn as where it is no annotation: a Category beyond the last one.
inline constexpr uint32_t kDrawnCopy = 64, kDrawnSynchronization = 65, kDrawnOverhead = 66;

// What is drawn of an event beside its name and times.
struct EventLook {
  uint32_t category = 0;  // Category, or one of the above
  uint8_t stage = 0;      // Stage, of transfers; 255 not known
  bool inferred = false;  // a mapping, or the collector, made it of another event
  uint32_t colour = 0;    // that the program gave it, as palette.h packs colours; 0 none

  bool operator==(const EventLook&) const = default;
};

using LooksByName = std::map<uint32_t, EventLook>;

// What events mean. A category counts in domain "poolscope" alone: those of other domains are the
// program's own numbers. One thread.
class Meanings {
 public:
  Meanings(const Store& store, const Vocabulary& words) : store_(store), words_(words) {}

  // kNone: nothing. Of a device's kernels and memsets what they mean where no mapping says else.
  Category Of(const Event& event, const EventBatch& batch);
  EventLook Look(const Event& event, const EventBatch& batch);
  // Of each name's first event: a sample of what chunks hold that are not decoded.
  LooksByName LooksOf(const EventBatch& batch);

 private:
  const Store& store_;
  const Vocabulary words_;
  std::map<uint32_t, Category> kernels_;  // by name
};

}  // namespace poolscope
