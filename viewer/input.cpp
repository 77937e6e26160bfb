#include "viewer/input.h"

#include <set>

namespace poolscope {

std::deque<InputEvent> InputQueue::TakeFrame() {
  std::deque<InputEvent> frame;
  std::set<int> keys;
  bool button_changed = false;
  while (!events_.empty()) {
    const InputEvent& event = events_.front();
    const bool pointer =
        event.kind == InputEvent::Kind::kMove || event.kind == InputEvent::Kind::kButton ||
        event.kind == InputEvent::Kind::kLeave || event.kind == InputEvent::Kind::kWheel;
    if (pointer && button_changed) break;
    if (event.kind == InputEvent::Kind::kKey && !event.repeat && !keys.insert(event.code).second) {
      break;
    }
    if (event.kind == InputEvent::Kind::kButton) button_changed = true;
    frame.push_back(event);
    events_.pop_front();
  }
  return frame;
}

}  // namespace poolscope
