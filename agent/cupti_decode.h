#pragma once

#include <cstddef>
#include <cstdint>

#include "agent/cupti_launches.h"
#include "agent/cupti_library.h"
#include "agent/cupti_record.h"
#include "trace/limits.h"

namespace poolscope::agent::cupti {

// Where CUPTI's clock stands to CLOCK_MONOTONIC: the same, since it asks us for the time, or,
// where it does not, apart by what was measured last and the time before (it may have been set in
// between).
struct DeviceClock {
  bool foreign = false;
  int64_t offsets_ns[2] = {};  // to add; the newest first
  uint64_t from_ns = 0;        // nothing happened before; CLOCK_MONOTONIC, as is:
  uint64_t now_ns = 0;
};

// Turns CUPTI's times into CLOCK_MONOTONIC. False: nothing can have happened then, or before it
// was called for (0: not known).
bool Place(const DeviceClock& clock, uint64_t called_ns, uint64_t* start_ns, uint64_t* end_ns);

// From CUPTI's buffers to the session: each activity once, with who launched it, in whatever order
// they come; what cannot be recorded is counted by cause. One thread alone, inside an Inside.
class Decoder {
 public:
  // `late_launches`: launches are told by records, which may come after what they launched.
  // False: no memory.
  bool Init(const Library* library, Launches* launches, bool late_launches);

  // Reads who launched what out of a buffer. Before Decode, of all buffers of a round.
  void ReadLaunches(uint8_t* buffer, size_t valid_bytes, const DeviceClock& clock);
  void Decode(ThreadWriter& writer, uint8_t* buffer, size_t valid_bytes, const DeviceClock& clock);

  // How many records a buffer holds. Any thread.
  uint64_t Count(uint8_t* buffer, size_t valid_bytes);

  uint64_t devices() const { return devices_; }  // that were seen, of the first 64, as bits
  bool waits() const { return waiting_count_ != 0 || holdings_.waits(); }

  // The round's end: writes what waited for its launch in vain for some rounds, or, if `all`,
  // whatever waits.
  void FinishRound(ThreadWriter& writer, const DeviceClock& clock, bool all);

 private:
  struct Waiting {
    Record record;
    uint32_t rounds;
  };

  template <typename F>
  bool Walk(uint8_t* buffer, size_t valid_bytes, F each);
  void DecodeOne(ThreadWriter& writer, const uint32_t* at, size_t bytes, const DeviceClock& clock);
  void DecodeMemory(ThreadWriter& writer, const MemoryRecord& memory, const DeviceClock& clock);
  void DecodePool(ThreadWriter& writer, const MemoryPoolRecord& pool, const DeviceClock& clock);
  template <typename T>
  void Finish(ThreadWriter& writer, const T& source, Record* record, const DeviceClock& clock);
  void WriteAsLaunched(ThreadWriter& writer, const Launch& launch, const DeviceClock& clock,
                       Record* record);
  bool SeenBefore(const Record& record);
  void NameCopy(uint32_t from, uint32_t to, Record* record);
  void NameMemory(MemoryOperation operation, MemoryKind memory, Record* record);
  void TakeMove(ThreadWriter& writer, const Record& record);
  uint64_t DeviceOf(uint32_t context) const;
  void Learn(uint32_t context, uint32_t device);

  static constexpr uint32_t kMemories = 7;
  struct CopyName {
    uint32_t event, from, to;  // string ids, 0: not interned yet
  };

  struct MemoryName {
    uint32_t event, kind;  // string ids, 0: not interned yet
  };

  static constexpr uint32_t kMaxWaiting = 8192;
  static constexpr uint32_t kSeen = 1u << 15;
  static constexpr uint32_t kContexts = 64;

  const Library* library_ = nullptr;
  Launches* launches_ = nullptr;
  bool late_launches_ = false;
  uint64_t devices_ = 0;
  Waiting* waiting_ = nullptr;
  uint32_t waiting_count_ = 0;
  CopyName copy_names_[kMemories][kMemories] = {};
  MemoryName memory_names_[kMemoryOperations][kMemoryKinds] = {};
  Holdings holdings_;
  uint64_t* seen_ = nullptr;  // fingerprints of the newest records
  struct {
    uint32_t context, device;
  } contexts_[kContexts] = {};  // by context id, which is never 0; the one seen last
};

}  // namespace poolscope::agent::cupti
