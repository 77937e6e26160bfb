#include "trace/session_format.h"

namespace poolscope {

const char* AgentOffText(AgentOff why) {
  switch (why) {
    case AgentOff::kNo:
      return "";
    case AgentOff::kNvtxTables:
      return "a library's NVTX is not of version 3";
    case AgentOff::kForeignRecord:
      return "a ring holds what its process did not write";
    case AgentOff::kCheckFailed:
      break;
  }
  return "an internal check failed";
}

const char* LossCauseName(LossCause cause) {
  switch (cause) {
    case LossCause::kRingFull:
      return "ring_full";
    case LossCause::kOverwritten:
      return "overwritten";
    case LossCause::kNoRing:
      return "no_ring";
    case LossCause::kOpenTableFull:
      return "open_table_full";
    case LossCause::kPayloadTooLarge:
      return "payload_too_large";
    case LossCause::kTooManyNames:
      return "too_many_names";
    case LossCause::kUnmatchedEnd:
      return "unmatched_end";
    case LossCause::kUndecodable:
      return "undecodable";
    case LossCause::kUnknownCount:
      return "unknown_count";
    case LossCause::kUnknownClock:
      return "unknown_clock";
    case LossCause::kLate:
      return "late";
    case LossCause::kDeviceDropped:
      return "device_dropped";
    case LossCause::kDeviceTime:
      return "device_time";
    case LossCause::kDeviceUnknown:
      return "device_unknown";
    case LossCause::kCount:
      break;
  }
  return "invalid";
}

}  // namespace poolscope
