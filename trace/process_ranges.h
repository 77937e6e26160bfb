#pragma once

#include <atomic>
#include <cstdint>

#include "trace/limits.h"
#include "trace/session_format.h"

namespace poolscope {

// The open start/end ranges of the process: which entries of the session's table are free, and who
// may end one. Any thread, no lock. A range may end on another thread than it started on; of two
// that end it at once one wins.
class ProcessRangeTable {
 public:
  // The table in the session file, `entries` of it backed with memory. In a forked child again
  // (with none): ranges of the parent are not its own, and their ids stay unknown to it.
  void Reset(ProcessRange* table, uint32_t entries);

  // Takes an entry and gives its future id, or 0 when all are in use. The caller fills the entry.
  uint64_t Take(ProcessRange** entry);
  void Open(ProcessRange* entry, uint64_t id);  // it can be seen and ended from now on

  // The entry of an open range, which the caller alone may now read and must Free. Null: no range
  // of that id is open.
  ProcessRange* BeginEnd(uint64_t id);
  void Free(ProcessRange* entry);

 private:
  static constexpr uint64_t kIndexBits = 12;
  static_assert(kMaxOpenProcessRanges == 1u << kIndexBits);

  ProcessRange* table_ = nullptr;
  std::atomic<uint64_t> sequence_{0};                         // never set back: ids never repeat
  std::atomic<uint64_t> free_{0};                             // tag << 32 | index + 1 of the first
  std::atomic<uint32_t> next_free_[kMaxOpenProcessRanges]{};  // index + 1
  std::atomic<uint64_t> open_[kMaxOpenProcessRanges]{};       // id, 0: free or being ended
};

}  // namespace poolscope
