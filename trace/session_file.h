#pragma once

#include <cstdint>

#include "trace/reason.h"
#include "trace/session_format.h"

namespace poolscope {

// The writer's hold on its session file: creation, identity, lock, and shared memory that is only
// ever touched after it is reserved, so that a full tmpfs is a refusal and never a SIGBUS.
// Not thread-safe; allocates nothing from the heap.
class SessionFile {
 public:
  // Makes <session id>.session in the run folder with a filled header, all but the magic. On
  // failure says why and leaves nothing behind. The session takes at most a quarter of what the
  // tmpfs has free now; `ring_area` bytes of address space follow the layout's fixed part.
  bool Create(uint64_t ring_area, ClockKind clock, Reason* why);

  // Backs [offset, offset + bytes) with memory, whole pages. False where the session's share, the
  // tmpfs, RLIMIT_FSIZE or the address space end; then nothing has changed.
  bool Reserve(uint64_t offset, uint64_t bytes);

  // What Reserve may still give, before looking at the tmpfs.
  uint64_t budget() const { return budget_; }

  // Address space for rings that Create got, from kRingsAt on.
  uint64_t ring_area() const { return mapped_bytes_ - kRingsAt; }

  uint8_t* base() const { return base_; }
  SessionHeader* header() const { return reinterpret_cast<SessionHeader*>(base_); }
  ThreadSlot* slots() const { return reinterpret_cast<ThreadSlot*>(base_ + kSlotsAt); }
  ProcessRange* ranges() const { return reinterpret_cast<ProcessRange*>(base_ + kProcessRangesAt); }

  // Takes a session back that was never ready: removes the file.
  void Discard();

  // After fork, in the child: lets go of the parent's file without touching it.
  void Abandon();

 private:
  bool Open(Reason* why);
  bool FileIsOurs();
  bool LookAtSpace(Reason* why);
  void FillHeader(ClockKind clock);

  int directory_ = -1;  // while Create runs
  int file_ = -1;
  char name_[48] = {};
  uint64_t device_ = 0;  // of the file, to know it again
  uint64_t inode_ = 0;
  uint8_t session_id_[16] = {};
  uint8_t run_id_[16] = {};  // kept over forks: a child's session belongs to the same run
  bool run_id_known_ = false;
  uint8_t* base_ = nullptr;
  uint64_t mapped_bytes_ = 0;
  uint64_t budget_ = 0;
};

}  // namespace poolscope
