// The part of WindowBuilder that says which state an activity is.
#include "collector/windows.h"

namespace poolscope {

StateInterval WindowBuilder::StateOf(const Activity& activity, bool discarded, bool open) const {
  StateInterval interval{activity.begin_ns, activity.end_ns, State::kIdle, activity.link};
  switch (activity.category) {
    case Category::kWork:
      interval.state = discarded ? State::kBusyDiscarded : State::kBusy;
      break;
    case Category::kTransfer: {
      // A range that is still open does not tell its stage yet: what a sender does for a link is
      // to get its output out, what a receiver does is mostly to use what came.
      const bool sends = activity.link >= 0 && activity.worker >= 0 &&
                         model_.links()[static_cast<size_t>(activity.link)].from_pool ==
                             model_.workers()[static_cast<size_t>(activity.worker)].pool;
      const bool stage_known = !open || activity.source != kNoValue;
      if (stage_known && activity.stage == Stage::kApply) {
        interval.state = State::kBusy;
      } else if (sends) {
        interval.state = State::kBlockedLink;
      } else {
        interval.state = stage_known ? State::kWaitLink : State::kBusy;
      }
      break;
    }
    case Category::kWaitLink:
      interval.state = State::kWaitLink;
      break;
    case Category::kBlockedLink:
      interval.state = State::kBlockedLink;
      break;
    case Category::kWaitCredit:
      interval.state = State::kWaitCredit;
      break;
    case Category::kWaitPeer:
      interval.state = State::kWaitPeer;
      break;
    case Category::kHost:
      interval.state = State::kHostBound;  // where the device works, that wins
      break;
    case Category::kInput:
      interval.state = State::kInput;
      break;
    case Category::kOtherWork:
      interval.state = State::kOtherWork;
      break;
    case Category::kWaitDevice:
      interval.state = State::kIdle;  // of the worker; its device is another's
      break;
    default:
      break;
  }
  // What a worker's device does is its work; what its host does meanwhile feeds it.
  const bool host = !activity.on_device && activity.worker >= 0 &&
                    model_.workers()[static_cast<size_t>(activity.worker)].on_device();
  if (host && (interval.state == State::kBusy || interval.state == State::kBusyDiscarded)) {
    interval.state = State::kHostBound;
  }
  return interval;
}

}  // namespace poolscope
