#include "collector/activity.h"

#include <algorithm>
#include <bit>

#include "collector/nccl_operation.h"
#include "store/meaning.h"

namespace poolscope {
namespace {

// Field positions of the schemas of device streams; the agent writes more fields than are used
// here.
enum CopyField : uint32_t { kCopyBytes = 4 };

uint64_t Field(std::span<const uint64_t> values, uint32_t field, uint64_t otherwise = kNoValue) {
  return field < values.size() ? values[field] : otherwise;
}

uint64_t Bytes(std::span<const uint64_t> values, uint32_t field) {
  const uint64_t value = Field(values, field, 0);
  return value == kNoValue || value > (uint64_t{1} << 50) ? 0 : value;
}

}  // namespace

PayloadKind PayloadKindOf(std::string_view schema) {
  for (const auto& [name, kind] : kPayloadSchemas) {
    if (name == schema) return kind;
  }
  return PayloadKind::kNone;
}

bool TakeFields(PayloadKind kind, std::span<const uint64_t> values, Activity& out) {
  switch (kind) {
    case PayloadKind::kTransfer: {
      const uint64_t stage = Field(values, kTransferStage, 0);
      if (stage > static_cast<uint64_t>(Stage::kReceive)) return false;
      out.stage = static_cast<Stage>(stage);
      out.source = Field(values, kTransferSource);
      out.destination = Field(values, kTransferDestination);
      out.sequence = Field(values, kTransferSequence);
      out.version = Field(values, kTransferVersion);
      out.applied_version = Field(values, kTransferAppliedVersion);
      out.raw_bytes = Bytes(values, kTransferRawBytes);
      out.wire_bytes = Bytes(values, kTransferWireBytes);
      out.step = Field(values, kTransferStep);
      out.micro_batch = Field(values, kTransferMicroBatch);
      return true;
    }
    case PayloadKind::kWork:
      out.step = Field(values, kWorkStep);
      out.micro_batch = Field(values, kWorkMicroBatch);
      out.version = Field(values, kWorkVersion);
      return true;
    case PayloadKind::kWait:
      out.source = Field(values, kWaitSource);
      out.sequence = Field(values, kWaitSequence);
      return true;
    case PayloadKind::kFault: {
      const uint64_t fault = Field(values, kFaultKind, 0);
      if (fault > static_cast<uint64_t>(FaultKind::kLost)) return false;
      out.fault = static_cast<FaultKind>(fault);
      out.source = Field(values, kFaultSource);
      out.destination = Field(values, kFaultDestination);
      out.sequence = Field(values, kFaultSequence);
      out.wire_bytes = Bytes(values, kFaultBytes);
      return true;
    }
    case PayloadKind::kStep:
      out.step = Field(values, kStepNumber);
      out.version = Field(values, kStepVersion);
      out.tokens = Bytes(values, kStepTokens);
      out.micro_batches = Bytes(values, kStepMicroBatches);
      out.value = std::bit_cast<double>(Field(values, kStepLoss, kNoValue));
      return true;
    case PayloadKind::kKernel:
    case PayloadKind::kMemset:
      out.on_device = true;
      out.launch_tid = static_cast<uint32_t>(Field(values, kDeviceLaunchTid, 0));
      return true;
    case PayloadKind::kCopy:
      out.on_device = true;
      out.launch_tid = static_cast<uint32_t>(Field(values, kDeviceLaunchTid, 0));
      out.sequence = Field(values, kDeviceCorrelation);
      out.raw_bytes = out.wire_bytes = Bytes(values, kCopyBytes);
      return true;
    case PayloadKind::kDevice:
    case PayloadKind::kNccl:
      out.launch_tid = static_cast<uint32_t>(Field(values, kNcclTid, 0));
      return true;
    case PayloadKind::kNone:
      return true;
  }
  return false;
}

bool MeanByItself(PayloadKind kind, std::string_view name, Activity& out) {
  const Category means = kind == PayloadKind::kKernel   ? DeviceMeaning(kKernelSchema, name)
                         : kind == PayloadKind::kMemset ? DeviceMeaning(kMemsetSchema, name)
                                                        : Category::kNone;
  if (means != Category::kNone) out.category = means;
  return means != Category::kNone;
}

std::string_view DepthCounterLink(std::string_view name) {
  constexpr std::string_view kSuffix = ".depth";
  return name.ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size()) : "";
}

bool IsOccupancyCounter(std::string_view name) { return name.ends_with(".occupancy"); }

}  // namespace poolscope
