#pragma once

#include <string_view>

#include "store/rows.h"
#include "trace/event.h"

// What an event says of its worker, for all who split time into states: the collector's windows and
// the viewer's pictures must agree.
namespace poolscope {

// Payload schemas of what devices did (docs/cupti.md) and of NCCL's operations (docs/nccl.md), and
// the fields that readers need beside their names.
inline constexpr std::string_view kKernelSchema = "cuda.kernel";
inline constexpr std::string_view kCopySchema = "cuda.copy";
inline constexpr std::string_view kMemsetSchema = "cuda.memset";
inline constexpr std::string_view kSynchronizationSchema = "cuda.synchronization";
inline constexpr std::string_view kDeviceSchema = "cuda.device";
inline constexpr std::string_view kNcclSchema = "nccl.operation";
// Of the first four: correlation id, and the system's id of the thread that launched it.
enum DeviceField : uint32_t { kDeviceCorrelation, kDeviceLaunchTid };

// What an event of a device's stream with this payload schema means where no rule gives it another
// meaning: work, or a kernel of NCCL's, that waits for its peers. kNone: nothing.
Category DeviceMeaning(std::string_view schema, std::string_view name);

// One thing that a worker, or its device, did.
struct Doing {
  Category category = Category::kNone;
  Stage stage = Stage::kQueued;  // kTransfer only
  bool stage_known = true;       // a range that is still open does not tell it yet
  bool sends = false;            // kTransfer: the worker is of the link's sending pool
  bool discarded = false;        // its result was thrown away later
  bool feeds_device = false;     // done by the host of a worker that is a device's
};
// The state that it alone would put the worker in.
State StateOf(const Doing& doing);

}  // namespace poolscope
