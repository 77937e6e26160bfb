#pragma once

#include <cstdint>

#include "agent/process.h"

namespace poolscope::agent::cupti {

// CUpti_ActivityMemoryKind, and what comes from a pool of a device's memory.
enum class MemoryKind : uint8_t {
  kUnknown,
  kPageable,
  kPinned,
  kDevice,
  kArray,
  kManaged,
  kDeviceStatic,
  kManagedStatic,
  kPool
};
inline constexpr uint32_t kMemoryKinds = 9;

// CUPTI's numbers, of pools 2 more.
enum class MemoryOperation : uint8_t {
  kNone,
  kAllocate,
  kRelease,
  kCreatePool,
  kDestroyPool,
  kTrimPool
};
inline constexpr uint32_t kMemoryOperations = 6;

// Something that changed what the process holds.
struct MemoryMove {
  uint64_t at_ns = 0;  // CLOCK_MONOTONIC
  MemoryOperation operation = MemoryOperation::kNone;
  MemoryKind kind = MemoryKind::kUnknown;
  uint64_t device = 0;   // kNoDevice: none
  uint64_t address = 0;  // of an allocation, 0: of none
  uint64_t bytes = 0;
  uint64_t pool = 0;        // address of the pool that it concerns, 0: of none
  uint64_t pool_bytes = 0;  // what that has reserved since
};

// How much memory the process holds, by device and kind, from records that come in any order: a
// release may come before its allocation. What was allocated before the agent, or whose allocation
// is lost, is not counted, nor is its release. One thread alone.
class Holdings {
 public:
  bool Init();  // false: no memory

  void Add(ThreadWriter& writer, const MemoryMove& move);
  // Samples the counters that have changed, in order of time; what comes late counts from the
  // newest sample on. At the end of each round.
  void Settle(ThreadWriter& writer);
  bool waits() const { return move_count_ != 0; }

 private:
  struct Holding {
    uint64_t address;  // 0: free slot
    uint64_t bytes;
    uint64_t at_ns;
    uint64_t device;
    MemoryKind kind;
  };
  struct Release {
    uint64_t address, at_ns;
  };
  struct Pool {
    uint64_t address, bytes, at_ns;
    uint64_t device;
  };
  enum Counter : uint32_t { kAll, kDevice, kPool, kManaged, kPinned, kReserved, kCounters };
  struct Count {
    uint64_t bytes;
    uint32_t name;  // string id, 0: not defined yet
  };

  void Apply(ThreadWriter& writer, const MemoryMove& move);
  void Allocate(ThreadWriter& writer, const MemoryMove& move);
  void Resize(ThreadWriter& writer, const MemoryMove& move);
  void Change(ThreadWriter& writer, const Holding& holding, bool adds, uint64_t at_ns);
  // `bytes` more, modulo 2^64.
  void ChangeCounter(ThreadWriter& writer, uint64_t device, Counter counter, uint64_t bytes,
                     uint64_t at_ns);
  Holding* Find(uint64_t address) const;  // its holding, or the free slot that it would take
  void Erase(Holding* holding);

  static constexpr uint32_t kMaxMoves = 16384;
  static constexpr uint32_t kReleases = 8192;
  static constexpr uint32_t kPools = 64;
  static constexpr uint32_t kDevices = 64;  // and the host

  MemoryMove* moves_ = nullptr;
  uint32_t move_count_ = 0;
  Holding* holdings_ = nullptr;
  uint32_t holding_count_ = 0;
  Release* early_ = nullptr;  // releases that came before their allocations, by address
  Pool pools_[kPools] = {};
  Count counts_[kDevices + 1][kCounters] = {};
  uint64_t sampled_ns_ = 0;
};

}  // namespace poolscope::agent::cupti
