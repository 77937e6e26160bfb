#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/rows.h"
#include "trace/event.h"

// The rows of the timeline from top to bottom and where each stands. Pure: no drawing, no store.
namespace poolscope {

enum class LaneKind : uint8_t {
  kPool,       // title of a pool
  kStates,     // one worker's state split
  kRanges,     // one thread's ranges, a row per nesting level
  kLink,       // title of a link
  kWire,       // transfers on the wire, a row per lane of the link
  kDepth,      // messages in the link's buffer
  kBandwidth,  // bytes per second on the wire
  kLag,        // version lag where the link's messages are applied
  kOther,      // title of the threads that do no pool's work, of one process
  kCounter,    // one counter, a device's or the program's own
  kCounters,   // title of the program's own
};

struct Lane {
  LaneKind kind = LaneKind::kPool;
  std::string label;
  std::string detail;   // second, dimmer label: role, endpoints, thread name
  std::string subject;  // pool or link
  int64_t worker = -1;
  std::vector<int64_t> tracks;  // whose events it shows; several: merged by time
  std::string counter;          // kCounter: its name
  uint16_t rows = 1;
};

// What lanes are made of, as the store tells it.
struct LaneSource {
  std::vector<PoolRow> pools;
  std::vector<WorkerRow> workers;
  std::vector<LinkRow> links;
  std::vector<ThreadRow> threads;
  struct Track {
    TrackRow row;
    std::string counter;     // name of the counter
    uint16_t max_depth = 0;  // deepest nesting seen
    int64_t first_ns = 0, last_ns = 0;
  };
  std::vector<Track> tracks;
  std::vector<ProcessRow> processes;
  bool ended = false;  // the run: its threads last no longer than their tracks
};

// Pools in the order work flows (producers of a link before its consumers where roles do not say),
// each followed by its workers' lanes; a link stands below the first of its two pools, so that it
// lies between them. Threads without a pool come last, by process, but those of a link's wire
// (`link/<link>/<lane>`, `link/*/...` where it carries all of them) are the link's. Of a process of
// very many threads those that ran one after another share a lane. A device's counters ("device
// 0.<name>") stand below the streams of the worker that it is, others by themselves at the end.
std::vector<Lane> MakeLanes(const LaneSource& source);

struct LaneStyle {
  float title = 26, states = 20, row = 17, gap = 3, curve = 40, counter = 32, group_gap = 10;
  // A folded pool's states get thinner with many workers, to fill about `folded`.
  float folded = 160, least_states = 2;
};
struct LaneBox {
  float top = 0;     // from the top of the first lane
  float height = 0;  // 0: hidden
};
// `folded[i]` of a title hides the lanes of its group, but for a pool's states. Same size as lanes.
std::vector<LaneBox> StackLanes(const std::vector<Lane>& lanes, const std::vector<bool>& folded,
                                const LaneStyle& style);
// The titles that start folded, so that pools of many workers do not push the links out of sight:
// pools of more than kMaxOpenWorkers, and the largest while twice that are open in all; and the
// program's own counters.
inline constexpr size_t kMaxOpenWorkers = 8;
std::vector<bool> StartFolded(const std::vector<Lane>& lanes);
// Workers of the group that the title `title` begins.
size_t WorkersBelow(const std::vector<Lane>& lanes, size_t title);
float StackHeight(const std::vector<LaneBox>& boxes);
// The lane at `y`, or -1.
int LaneAt(const std::vector<LaneBox>& boxes, float y);
bool IsTitle(LaneKind kind);

}  // namespace poolscope
