#pragma once

#include <atomic>
#include <cstdint>

namespace poolscope::agent::cupti {

// Who launched something for a device.
struct Launch {
  uint32_t tid = 0;        // 0: not known
  uint32_t range = 0;      // string id of the innermost open push/pop range, 0: none
  uint32_t open_id = 0;    // of that range
  uint64_t called_ns = 0;  // CLOCK_MONOTONIC, 0: not known
};

// The calling thread's, now. No system call but for a thread's first.
Launch LaunchNow();

// Launches by CUPTI's correlation id, which grows by about one with each: the newest kLaunches are
// kept. Remembered by the threads that launch, looked up by one thread; no locks.
class Launches {
 public:
  bool Init();  // false: no memory
  void Remember(uint32_t correlation, const Launch& launch);
  bool Find(uint32_t correlation, Launch* launch) const;

 private:
  struct Slot {
    std::atomic<uint64_t> key;  // correlation | tid << 32, 0 while it changes
    std::atomic<uint64_t> range;
    std::atomic<uint64_t> called_ns;
  };
  Slot& At(uint32_t correlation) const;

  Slot* slots_ = nullptr;
};

}  // namespace poolscope::agent::cupti
