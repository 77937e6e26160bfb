#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "store/meaning.h"
#include "trace/event.h"

namespace poolscope {

// An event that means something for pools and links: what windows are made of. Worker and link are
// ids of the RunModel, -1 where not known.
struct Activity {
  Category category = Category::kNone;
  Stage stage = Stage::kQueued;         // kTransfer only
  FaultKind fault = FaultKind::kRetry;  // kFault only
  bool on_thread = true;   // a range of the worker's own thread; false: start/end, or a mark
  bool on_device = false;  // of a device's stream: what the device did itself
  bool mapped = false;     // a mapping gave it its meaning
  bool operation = false;  // of NCCL, whose begin moves a little once its end is known
  int worker = -1;         // whose thread recorded, or launched it
  int link = -1;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  // Fields of the payload schema that the event carries, else kNoValue.
  uint64_t source = kNoValue;  // transfers, waits and faults
  uint64_t destination = kNoValue;
  uint64_t sequence = kNoValue;
  uint64_t version = kNoValue;
  uint64_t applied_version = kNoValue;
  uint64_t raw_bytes = 0;
  uint64_t wire_bytes = 0;
  uint64_t step = kNoValue;
  uint64_t micro_batch = kNoValue;
  uint64_t tokens = 0;  // kStep
  uint64_t micro_batches = 0;
  double value = 0;  // kStep: loss
  // What it was made of, where that is stored beside it once more: ids of the store.
  struct Origin {
    int64_t thread = 0;  // that what was made belongs to; 0: it is not stored so
    uint32_t domain = 0, name = 0;
  };
  Origin origin;            // of matched NCCL operations
  uint32_t launch_tid = 0;  // of lanes: the system's id of the thread that launched it, 0 unknown
};

// Whether the name of an annotated event of the category is a link's.
constexpr bool NamesLink(Category category) {
  return category == Category::kTransfer || category == Category::kWaitLink ||
         category == Category::kBlockedLink || category == Category::kDiscard ||
         category == Category::kFault;
}

// Which payload schema a group of values belongs to: annotate.h's, or those of device streams
// (docs/devices.md).
enum class PayloadKind : uint8_t {
  kNone,
  kTransfer,
  kWork,
  kWait,
  kStep,
  kFault,
  kKernel,
  kCopy,
  kMemset,
  kDevice,
  kNccl
};
inline constexpr std::pair<std::string_view, PayloadKind> kPayloadSchemas[] = {
    {kTransferSchema, PayloadKind::kTransfer}, {kWorkSchema, PayloadKind::kWork},
    {kWaitSchema, PayloadKind::kWait},         {kStepSchema, PayloadKind::kStep},
    {kFaultSchema, PayloadKind::kFault},       {kKernelSchema, PayloadKind::kKernel},
    {kCopySchema, PayloadKind::kCopy},         {kMemsetSchema, PayloadKind::kMemset},
    {kDeviceSchema, PayloadKind::kDevice},     {kNcclSchema, PayloadKind::kNccl}};
PayloadKind PayloadKindOf(std::string_view schema);
// Takes the fields of a payload group into `out`. False: a value that no annotation writes.
bool TakeFields(PayloadKind kind, std::span<const uint64_t> values, Activity& out);

// Gives an event of a device's stream, whose fields are taken, the meaning that it has where no
// rule gives it another. False: it has none.
bool MeanByItself(PayloadKind kind, std::string_view name, Activity& out);

// The link whose depth the counter `name` samples ("<link>.depth"), "" for other counters.
std::string_view DepthCounterLink(std::string_view name);

// Whether counter `name` is "<pool>.occupancy", which a worker samples on its own thread: the share
// of its capacity that is in use, 0 to 1. Its busy time counts by that share from then on.
bool IsOccupancyCounter(std::string_view name);

// A sample of counter "<link>.depth".
struct DepthSample {
  int link = -1;
  int64_t at_ns = 0;
  double depth = 0;
};

// A sample of a worker's occupancy counter.
struct OccupancySample {
  int worker = -1;
  int64_t at_ns = 0;
  double share = 1;  // 0 to 1
};

}  // namespace poolscope
