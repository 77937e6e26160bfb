#include "agent/nccl_operations.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "agent/lanes.h"
#include "agent/nccl_record.h"
#include "agent/process.h"
#include "agent/text.h"
#include "trace/locked.h"

namespace poolscope::agent::nccl {

struct Communicator {
  bool open;
  uint32_t lane;  // kNoLane: not known yet, or there are too many
  uint64_t hash;
  int rank, ranks;
  int64_t timer_offset_ns;  // smallest CLOCK_MONOTONIC − globaltimer seen; INT64_MAX: none
};

namespace {

constexpr uint32_t kMaxCommunicators = 1024;
constexpr uint32_t kMaxOperations = 8192;
constexpr int64_t kPatienceNs = 2'000'000'000;  // for parts that never come
constexpr uint32_t kLookedAtPerStart = 16;      // entries that are looked at for such

enum class HandleKind : uint64_t { kGroup = 0, kOperation = 1, kChannel = 2, kProxy = 3 };

struct Operation {
  uint64_t generation;  // of the entry, from 1; 0: never used
  Communicator* communicator;
  OperationRecord record;  // times and communicator are filled in when it is complete
  int64_t enqueued_ns;     // 0: not yet
  uint32_t running;        // channels and proxies
  uint32_t channels_done;
  int64_t first_ns, last_ns;         // of its channels, else of its proxies; 0: none
  uint64_t first_timer, last_timer;  // of its channels; 0: not known
  int64_t first_stop_ns;             // of a channel; 0: none
  uint64_t first_stop_timer;         // the same by the GPU's clock
  bool free;                         // complete, and in the list of free entries
  uint16_t older, newer;             // in that list
};

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
// Guarded by mutex.
Communicator communicators[kMaxCommunicators];
Operation operations[kMaxOperations];
uint32_t ever_used = 0;
uint32_t scan_at = 0;
uint64_t groups = 0;
bool expect_channels = false, expect_proxies = false;

// Entries whose operation is complete, from the longest complete on. They keep what they say until
// they are used again, since a replayed graph runs them again.
class FreeEntries {
 public:
  void Add(Operation& entry) {
    const uint16_t index = IndexOf(entry);
    entry.free = true;
    entry.older = newest_;
    entry.newer = kNone;
    (newest_ == kNone ? oldest_ : operations[newest_].newer) = index;
    newest_ = index;
  }
  void Remove(Operation& entry) {
    entry.free = false;
    (entry.older == kNone ? oldest_ : operations[entry.older].newer) = entry.newer;
    (entry.newer == kNone ? newest_ : operations[entry.newer].older) = entry.older;
  }
  Operation* TakeOldest() {
    if (oldest_ == kNone) return nullptr;
    Operation& entry = operations[oldest_];
    Remove(entry);
    return &entry;
  }
  void Clear() { oldest_ = newest_ = kNone; }

 private:
  static constexpr uint16_t kNone = 0xffff;
  static_assert(kMaxOperations < kNone);
  static uint16_t IndexOf(const Operation& entry) {
    return static_cast<uint16_t>(&entry - operations);
  }

  uint16_t oldest_ = kNone, newest_ = kNone;
};
FreeEntries free_entries;

int64_t Now() { return MonotonicNs(); }

void FindLane(Communicator& communicator, const char* name) {
  char text[160];
  snprintf(text, sizeof(text), "NCCL %.64s%s%016llx rank %d", name == nullptr ? "" : name,
           name == nullptr ? "" : " ", static_cast<unsigned long long>(communicator.hash),
           communicator.rank);
  communicator.lane = LaneOf({InternText(text), LaneKind::kCommunicator, kNoDevice,
                              communicator.hash, static_cast<uint64_t>(communicator.rank)});
}

void* HandleOf(const Operation& operation, HandleKind kind, uint8_t channel = 0) {
  const auto index = static_cast<uint64_t>(&operation - operations);
  return reinterpret_cast<void*>(operation.generation << 24 | uint64_t{channel} << 16 | index << 2 |
                                 static_cast<uint64_t>(kind));
}
static_assert(kMaxOperations <= 1u << 14);
constexpr uint64_t kMaxGeneration = (uint64_t{1} << 39) - 1;

uint64_t ChannelOf(void* handle) { return reinterpret_cast<uintptr_t>(handle) >> 16 & 0xff; }

HandleKind KindOf(void* handle) {
  return static_cast<HandleKind>(reinterpret_cast<uintptr_t>(handle) & 3);
}

// Null: the handle is no longer, or never was, one of an operation.
Operation* Find(void* handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  Operation& operation = operations[(number >> 2) & (kMaxOperations - 1)];
  const bool current =
      (number & 3) != 0 && operation.generation != 0 && operation.generation == number >> 24;
  return current ? &operation : nullptr;
}

bool IsComplete(const Operation& operation) {
  if (operation.free || operation.enqueued_ns == 0 || operation.running > 0) return false;
  if (expect_channels) return operation.channels_done >= std::max(1u, operation.record.channels);
  return !expect_proxies || operation.last_ns != 0;
}

// Frees the entry; what is to be written of it, beyond the lock.
OperationRecord Complete(Operation& operation) {
  OperationRecord& record = operation.record;
  const Communicator& communicator = *operation.communicator;
  record.start_ns = record.called_ns;
  record.end_ns = operation.enqueued_ns;
  record.timing = Timing::kEnqueued;
  if (operation.first_stop_timer != 0) {
    record.channel_spread_ns = operation.last_timer - operation.first_stop_timer;
  }
  if (operation.last_ns != 0) {
    record.timing = operation.channels_done > 0 ? Timing::kKernel : Timing::kProxy;
    record.start_ns = operation.first_ns;
    record.end_ns = operation.last_ns;
    if (operation.first_timer != 0 && operation.last_timer >= operation.first_timer) {
      record.start_ns = static_cast<int64_t>(operation.first_timer) + communicator.timer_offset_ns;
      record.end_ns = static_cast<int64_t>(operation.last_timer) + communicator.timer_offset_ns;
    }
  }
  free_entries.Add(operation);
  const OperationRecord complete = record;
  record.open_id = 0;  // is for the complete one to close
  return complete;
}

// An operation whose parts never came, among the next few entries; null: none.
Operation* Overdue(int64_t now) {
  for (uint32_t i = 0; i < kLookedAtPerStart && i < ever_used; ++i) {
    Operation& operation = operations[scan_at];
    scan_at = (scan_at + 1) % ever_used;
    if (operation.free || operation.enqueued_ns == 0 || operation.running > 0) continue;
    if (now - std::max(operation.enqueued_ns, operation.last_ns) > kPatienceNs) return &operation;
  }
  return nullptr;
}

Operation* TakeEntry() {
  return ever_used < kMaxOperations ? &operations[ever_used++] : free_entries.TakeOldest();
}

void* StartOperation(Communicator& communicator, const Descriptor& descriptor) {
  std::optional<OperationRecord> overdue;
  void* handle = nullptr;
  {
    const Inside inside(false);
    if (!inside) return nullptr;
    OperationRecord record;
    record.function = InternText(descriptor.function);
    record.datatype = InternText(descriptor.datatype);
    record.algorithm = InternText(descriptor.algorithm);
    record.protocol = InternText(descriptor.protocol);
    record.count = descriptor.count;
    record.bytes = descriptor.count * ElementBytes(descriptor.datatype);
    record.sequence = descriptor.type == kP2p ? ~uint64_t{0} : descriptor.sequence;
    record.peer = descriptor.root_or_peer;
    record.channels = descriptor.channels;
    record.tid = static_cast<uint32_t>(syscall(SYS_gettid));
    record.called_ns = Now();
    if (KindOf(descriptor.group) == HandleKind::kGroup) {
      record.group = reinterpret_cast<uintptr_t>(descriptor.group) >> 2;
    }
    const Locked locked(&mutex);
    if (communicator.lane == kNoLane && descriptor.communicator != 0) {
      communicator.hash = descriptor.communicator;
      communicator.rank = descriptor.rank;
      FindLane(communicator, descriptor.communicator_name);
    }
    record.lane = communicator.lane;
    record.communicator = communicator.hash;
    record.rank = communicator.rank;
    record.ranks = communicator.ranks;
    if (Operation* late = Overdue(record.called_ns)) overdue = Complete(*late);
    if (Operation* entry = TakeEntry()) {
      const uint64_t generation = entry->generation + 1;
      *entry = {};
      entry->generation = generation & kMaxGeneration;
      entry->communicator = &communicator;
      entry->record = record;
      Open(*inside, entry->record);
      // What copy engines do has no channels.
      if (descriptor.type == kCeColl) entry->channels_done = 1;
      handle = HandleOf(*entry, HandleKind::kOperation);
    }
  }
  if (overdue) Write(*overdue);
  return handle;
}

// A number is all that is kept of it: its operations bear it.
void* StartGroup() {
  const Registering registering;
  if (!registering) return nullptr;
  const Locked locked(&mutex);
  return reinterpret_cast<void*>(++groups << 2);
}

void* StartPart(const Descriptor& descriptor) {
  const Inside inside(false);
  if (!inside) return nullptr;
  const Locked locked(&mutex);
  Operation* operation = Find(descriptor.parent);
  if (operation == nullptr) return nullptr;
  if (operation->free) {  // it runs again
    free_entries.Remove(*operation);
    operation->channels_done = 0;
    operation->first_ns = operation->last_ns = 0;
    operation->first_timer = operation->last_timer = 0;
    operation->first_stop_ns = 0;
    operation->first_stop_timer = 0;
    operation->record.proxies = 0;
    operation->record.channel_spread_ns = 0;
  }
  const int64_t now = Now();
  ++operation->running;
  if (operation->first_ns == 0) {  // from here on it is in progress
    operation->first_ns = now;
    Close(operation->record);
    operation->record.timing = descriptor.type == kProxyOp ? Timing::kProxy : Timing::kKernel;
    Open(*inside, operation->record);
  }
  if (descriptor.type == kProxyOp) {
    ++operation->record.proxies;
    return HandleOf(*operation, HandleKind::kProxy);
  }
  if (descriptor.timer != 0) {
    Communicator& communicator = *operation->communicator;
    communicator.timer_offset_ns =
        std::min(communicator.timer_offset_ns, now - static_cast<int64_t>(descriptor.timer));
    if (operation->first_timer == 0 || descriptor.timer < operation->first_timer) {
      operation->first_timer = descriptor.timer;
    }
  }
  return HandleOf(*operation, HandleKind::kChannel, descriptor.channel);
}

}  // namespace

Communicator* OpenCommunicator(const char* name, uint64_t hash, int rank, int ranks) {
  const Registering registering;
  if (!registering) return nullptr;
  const Locked locked(&mutex);
  DefineRecord();
  for (Communicator& communicator : communicators) {
    if (communicator.open) continue;
    communicator = {true, kNoLane, hash, rank, ranks, INT64_MAX};
    if (hash != 0) FindLane(communicator, name);
    return &communicator;
  }
  return nullptr;
}

Communicator* OpenNamelessCommunicator() { return OpenCommunicator(nullptr, 0, -1, 0); }

void CloseCommunicator(Communicator* communicator) {
  if (communicator == nullptr) return;
  for (uint32_t i = 0; i < kMaxOperations; ++i) {
    std::optional<OperationRecord> last;
    {
      const Registering registering;
      if (!registering) return;
      const Locked locked(&mutex);
      Operation& operation = operations[i];
      if (operation.generation == 0) break;
      if (operation.communicator != communicator) continue;
      if (!operation.free) {  // its parts will not come any more
        const bool enqueued = operation.enqueued_ns != 0;
        last = Complete(operation);
        if (!enqueued) {
          Close(*last);
          last.reset();
        }
      }
      ++operation.generation;
      operation.communicator = nullptr;
    }
    if (last) Write(*last);
  }
  const Registering registering;
  if (!registering) return;
  const Locked locked(&mutex);
  communicator->open = false;
}

void* Start(Communicator* communicator, const Descriptor& descriptor) {
  switch (descriptor.type) {
    case kColl:
    case kP2p:
    case kCeColl: {
      void* handle = communicator != nullptr ? StartOperation(*communicator, descriptor) : nullptr;
      if (handle == nullptr) {
        const Inside inside(true);
        if (inside) inside->Lose(LossCause::kOpenTableFull);
      }
      return handle;
    }
    case kProxyOp:  // of another process its parent is an address over there
      return descriptor.pid == getpid() ? StartPart(descriptor) : nullptr;
    case kKernelCh:
      return StartPart(descriptor);
    case kGroup:
      return StartGroup();
    default:
      return nullptr;
  }
}

void StopChannel(void* handle, uint64_t timer) {
  if (timer == 0 || KindOf(handle) != HandleKind::kChannel) return;
  const Registering registering;
  if (!registering) return;
  const Locked locked(&mutex);
  Operation* operation = Find(handle);
  if (operation == nullptr) return;
  if (timer >= operation->last_timer) {
    operation->last_timer = timer;
    operation->record.slowest_channel = ChannelOf(handle);
  }
  uint64_t& first = operation->first_stop_timer;
  if (first == 0 || timer < first) first = timer;
  Communicator& communicator = *operation->communicator;
  communicator.timer_offset_ns =
      std::min(communicator.timer_offset_ns, Now() - static_cast<int64_t>(timer));
}

void Stop(void* handle) {
  std::optional<OperationRecord> complete;
  {
    const Registering registering;
    if (!registering) return;
    const Locked locked(&mutex);
    Operation* operation = Find(handle);
    if (operation == nullptr || operation->free) return;
    const int64_t now = Now();
    if (KindOf(handle) == HandleKind::kOperation) {
      operation->enqueued_ns = now;
    } else if (operation->running > 0) {
      --operation->running;
      operation->last_ns = now;
      if (KindOf(handle) == HandleKind::kChannel) {
        ++operation->channels_done;
        if (operation->first_stop_ns == 0) operation->first_stop_ns = now;
        if (operation->last_timer == 0) {  // else the GPU's clock tells
          operation->record.slowest_channel = ChannelOf(handle);
          operation->record.channel_spread_ns =
              static_cast<uint64_t>(now - operation->first_stop_ns);
        }
      }
    }
    if (IsComplete(*operation)) complete = Complete(*operation);
  }
  if (complete) Write(*complete);
}

void Expect(bool channels, bool proxies) {
  const Locked locked(&mutex);
  expect_channels = channels;
  expect_proxies = proxies;
}

void LockOperations() { pthread_mutex_lock(&mutex); }
void UnlockOperations() { pthread_mutex_unlock(&mutex); }

void ForgetOperationsInChild() {
  pthread_mutex_init(&mutex, nullptr);
  free_entries.Clear();
  ForgetOpenInChild();
  for (uint32_t i = 0; i < ever_used; ++i) {  // handles of the parent mean nothing here
    ++operations[i].generation;
    operations[i].communicator = nullptr;
    operations[i].record.open_id = 0;
    free_entries.Add(operations[i]);
  }
  for (Communicator& communicator : communicators) communicator.open = false;
}

}  // namespace poolscope::agent::nccl
