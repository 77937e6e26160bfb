#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>

namespace poolscope {

// Keys that the viewer knows; letters and digits are their upper-case ASCII codes.
enum Key : int {
  kKeyEscape = 256,
  kKeyEnter,
  kKeyBackspace,
  kKeyDelete,
  kKeyTab,
  kKeyLeft,
  kKeyRight,
  kKeyUp,
  kKeyDown,
  kKeyHome,
  kKeyEnd,
  kKeyPageUp,
  kKeyPageDown,
  kKeyCount
};

struct InputEvent {
  enum class Kind : uint8_t { kMove, kButton, kWheel, kKey, kCharacter, kLeave };
  Kind kind = Kind::kMove;
  int code = 0;  // button, Key, or Unicode code point
  bool down = false;
  bool repeat = false;
  bool shift = false, control = false;
  float x = 0, y = 0;  // cursor at the time; kWheel: amount in `dx`, `dy`
  float dx = 0, dy = 0;
};

// Events in the order they happened. ImGui 1.86 looks at the state of keys once a frame, so that a
// tap shorter than a frame would be lost; this queue hands out at most one change of each key and
// button per frame and keeps the cursor where the change happened.
class InputQueue {
 public:
  void Push(const InputEvent& event) { events_.push_back(event); }
  bool empty() const { return events_.empty(); }

  // The events of the next frame, oldest first; empty where nothing waits.
  std::deque<InputEvent> TakeFrame();

 private:
  std::deque<InputEvent> events_;
};

}  // namespace poolscope
