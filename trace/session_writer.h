#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "trace/definition_log.h"
#include "trace/process_ranges.h"
#include "trace/reason.h"
#include "trace/session_file.h"
#include "trace/thread_writer.h"

namespace poolscope {

// The writing side of a session (trace/session_format.h): one per process, made at its first event.
// Definitions may come before that; they are kept and published when the session starts.
// Meant to be a constant-initialised global that is never destroyed. Allocates from mmap only.
class SessionWriter {
 public:
  // What the process can do without a session: names and ids. Any thread, any time; false: no
  // memory for it.
  bool Init();

  // The id of a string, cut to kMaxStringBytes; kOverflowString when no more fit (counted).
  uint32_t Intern(std::string_view text);
  std::string_view Text(uint32_t id) const { return definitions_.Text(id); }
  uint32_t string_count() const { return definitions_.string_count(); }
  bool Define(DefinitionKind kind, uint64_t id, const void* payload, uint32_t bytes,
              uint64_t scope);

  // Makes the session unless it is there. False and why: none can be had.
  bool Start(Reason* why);
  bool started() const { return started_.load(std::memory_order_acquire); }

  // A slot and ring for the calling thread, or null: no thread slot or no shared memory left, now.
  ThreadWriter* Attach();
  void Detach(ThreadWriter* writer);  // the thread exits

  // Start/end ranges. 0: the table is full (counted).
  uint64_t StartProcessRange(ThreadWriter* writer, uint32_t domain, uint32_t name,
                             uint32_t category, const EventPayload& payload);
  void EndProcessRange(ThreadWriter* writer, uint64_t id, const EventPayload& extra);
  // The same for what has a record of its own at its end, which repeats the id: open for readers of
  // the table alone. 0: no room, and nothing counted.
  uint64_t OpenProcessRange(ThreadWriter* writer, uint32_t domain, uint32_t name, uint32_t category,
                            const EventPayload& payload);
  void CloseProcessRange(uint64_t id);  // after its record; 0: nothing to do

  // Counts events as missing. Any thread, no lock.
  void Lose(LossCause cause, uint64_t events, uint64_t first_ticks, uint64_t last_ticks);
  void Lose(LossCause cause);  // one, now

  void MarkEnded();  // exit was seen
  void MarkAgentOff(AgentOff why);
  ClockKind clock() const { return clock_; }
  uint64_t ticks_per_second() const { return ticks_per_second_; }  // roughly, once started

  // fork: hold the lock across it, so that the child's copy is consistent. The child forgets the
  // parent's session, keeps its definitions, and starts its own at its first event.
  void LockForFork() { pthread_mutex_lock(&mutex_); }
  void UnlockInParent() { pthread_mutex_unlock(&mutex_); }
  void ForgetInChild();

 private:
  friend class ThreadWriter;
  friend void TakeDueTriple(SessionWriter& session, uint64_t& due, uint64_t now);

  struct Region {  // a part of the file that is backed with memory as it fills
    uint64_t offset;
    uint64_t backed;
  };

  bool Grow(Region* region, uint64_t bytes, uint64_t step, uint64_t most);
  bool BackRanges();
  bool PublishDefinitions();
  void AddTriple(const ClockTriple& triple);
  ThreadSlot* UsedSlot(bool undrained_too);
  ThreadSlot* FreshSlot();
  bool MakeRoom(ThreadWriter* writer, uint32_t bytes);
  bool Overwrite(ThreadWriter* writer, uint64_t until);
  bool Overwrites() const;

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<bool> initialised_{false};
  std::atomic<bool> started_{false};
  ClockKind clock_ = ClockKind::kMonotonic;

  // Guarded by mutex_.
  SessionFile file_;
  DefinitionLog definitions_;
  Region definition_region_ = {kDefinitionsAt, 0};
  Region slot_region_ = {kSlotsAt, 0};
  uint64_t published_ = 0;  // bytes of definitions_ that the session holds
  uint64_t ring_bytes_ = kRingBytes;
  uint64_t next_ring_ = kRingsAt;
  uint64_t exits_ = 0;
  uint64_t exit_order_[kMaxThreads] = {};
  ThreadWriter* writers_ = nullptr;  // kMaxThreads, mapped, touched as slots are taken

  // Own synchronisation.
  ProcessRangeTable ranges_;
  std::atomic<bool> ranges_backed_{false};
  std::atomic<uint64_t> triple_due_{0};
  std::atomic_flag taking_triple_ = ATOMIC_FLAG_INIT;
  uint64_t ticks_per_second_ = 1'000'000'000;  // set once at Start
  uint64_t triple_interval_ = 0;               // ticks; grows to a second; under taking_triple_
};

}  // namespace poolscope
