#include "store/meaning.h"

#include <algorithm>

namespace poolscope {
namespace {

// Whether a kernel of this name, mangled or not, is NCCL's.
bool IsNcclKernel(std::string_view name) {
  if (name.starts_with("_Z")) {
    name.remove_prefix(2);
    name.remove_prefix(std::min(name.find_first_not_of("0123456789"), name.size()));
  }
  if (name.starts_with("void ")) name.remove_prefix(5);  // of a template
  return name.starts_with("ncclDevKernel") || name.starts_with("ncclKernel");
}

State TransferState(const Doing& doing) {
  if (doing.stage_known && doing.stage == Stage::kApply) return State::kBusy;
  if (doing.sends) return State::kBlockedLink;
  // What a sender does for a link is to get its output out, what a receiver does while its stage is
  // not known is mostly to use what came.
  return doing.stage_known ? State::kWaitLink : State::kBusy;
}

State PlainState(const Doing& doing) {
  switch (doing.category) {
    case Category::kWork:
      return doing.discarded ? State::kBusyDiscarded : State::kBusy;
    case Category::kTransfer:
      return TransferState(doing);
    case Category::kWaitLink:
      return State::kWaitLink;
    case Category::kBlockedLink:
      return State::kBlockedLink;
    case Category::kWaitCredit:
      return State::kWaitCredit;
    case Category::kWaitPeer:
      return State::kWaitPeer;
    case Category::kHost:
      return State::kHostBound;  // where the device works, that wins
    case Category::kInput:
      return State::kInput;
    case Category::kOtherWork:
      return State::kOtherWork;
    default:  // kWaitDevice too: the worker is idle, its device is another's
      return State::kIdle;
  }
}

}  // namespace

Category DeviceMeaning(std::string_view schema, std::string_view name) {
  if (schema == kKernelSchema) return IsNcclKernel(name) ? Category::kWaitPeer : Category::kWork;
  return schema == kMemsetSchema ? Category::kWork : Category::kNone;
}

State StateOf(const Doing& doing) {
  const State state = PlainState(doing);
  // What a worker's device does is its work; what its host does meanwhile feeds it.
  const bool busy = state == State::kBusy || state == State::kBusyDiscarded;
  return busy && doing.feeds_device ? State::kHostBound : state;
}

}  // namespace poolscope
