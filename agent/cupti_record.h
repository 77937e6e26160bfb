#pragma once

#include <cstdint>

#include "agent/cupti_memory.h"
#include "agent/process.h"

// Device activity as it is written into the session: on the lane of its stream, in domain "cuda",
// with the payloads that docs/cupti.md describes.

namespace poolscope::agent::cupti {

enum class RecordType : uint16_t { kKernel, kCopy, kMemset, kMemory, kSynchronization, kOverhead };
inline constexpr uint32_t kRecordTypes = 6;
inline constexpr uint32_t kMaxRecordFields = 11;

// Where the fields stand that say who launched it: the thread in all types, the others in those
// whose first it is, and that have so many.
inline constexpr uint32_t kCorrelationField = 0, kLaunchTidField = 1;
inline constexpr uint32_t kRangeField = 2, kRangeOpenIdField = 3;
inline constexpr uint32_t kGraphNodeField = 9, kQueuedField = 10;  // of kKernel
inline constexpr uint32_t kFromField = 5, kToField = 6;            // of kCopy
inline constexpr uint32_t kBytesField = 4, kMemoryKindField = 5;   // of kMemory, as are these:
inline constexpr uint32_t kStreamField = 6, kPoolField = 7, kPoolBytesField = 8;
inline constexpr uint32_t kAddressField = 9, kVariableField = 10;
inline constexpr uint32_t kOverheadKindField = 0;  // of kOverhead

// In place of a stream: of a context as a whole, of a device's memory.
inline constexpr uint64_t kNoStream = ~uint64_t{0}, kMemoryStream = kNoStream - 1;

struct Record {
  RecordType type = RecordType::kKernel;
  MemoryOperation operation = MemoryOperation::kNone;  // of kMemory, as is this:
  MemoryKind memory = MemoryKind::kUnknown;
  uint32_t name = 0;  // string id
  uint64_t device = kNoDevice;
  uint64_t context = 0;
  uint64_t stream = 0;
  uint64_t start_ns = 0, end_ns = 0;  // CLOCK_MONOTONIC
  uint64_t fields[kMaxRecordFields] = {};
};

// Defines the domain and the payload schemas, once; inside a Registering.
void DefineRecords();
uint32_t RecordDomain();

// Writes it into the writer's ring, inside an Inside. One thread alone calls these, our own: they
// may wait for the collector, a second at most.
void Write(ThreadWriter& writer, const Record& record);

// A counter of the domain, "device 0.NAME" or "host.NAME" where there is no device; a string id.
uint32_t DefineCounter(uint64_t device, const char* name);
void WriteCounter(ThreadWriter& writer, uint32_t counter, uint64_t at_ns,
                  const EventPayload& value);

}  // namespace poolscope::agent::cupti
