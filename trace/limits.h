#pragma once

#include <cstddef>
#include <cstdint>

namespace poolscope {

// Every bound of the data path, in one place.

// Sessions (shared memory).
inline constexpr size_t kRingBytes = size_t{1} << 20;        // per thread, unless tmpfs is small
inline constexpr size_t kMinRingBytes = size_t{64} << 10;    // smaller than this: no ring
inline constexpr size_t kMaxRingBytes = size_t{1} << 28;     // POOLSCOPE_RING_BYTES at most
inline constexpr uint32_t kMaxThreads = 512;                 // ring slots of a session, reused
inline constexpr uint32_t kMaxOpenRanges = 64;               // open push/pop ranges of a thread
inline constexpr uint32_t kMaxOpenProcessRanges = 4096;      // open start/end ranges of a process
inline constexpr size_t kDefinitionBytes = size_t{4} << 20;  // definition log of a session
inline constexpr size_t kMaxStringBytes = 4096;              // longer names are cut
inline constexpr uint32_t kMaxStrings = 65536;    // then all new names are kOverflowString
inline constexpr uint32_t kMaxPayloadWords = 32;  // payload of one event, 8 bytes each
inline constexpr uint32_t kMaxSchemaFields = 24;
inline constexpr uint32_t kMaxDomains = 1024;
inline constexpr uint32_t kMaxLanes = 4096;                     // of a session
inline constexpr size_t kCuptiBufferBytes = size_t{512} << 10;  // about 2400 kernels
inline constexpr uint32_t kMaxCuptiBuffers = 256;
inline constexpr uint32_t kMaxLaunches = 1u << 17;  // remembered until their kernels are reported
inline constexpr uint32_t kMaxAllocations = 1u << 18;  // of device memory, at a time
inline constexpr uint32_t kClockTriples = 64;          // the newest are kept
inline constexpr double kMaxShareOfFreeTmpfs = 0.25;

// Store.
inline constexpr size_t kMaxSymbolBytes = size_t{64} << 10;   // of a readable name of C++
inline constexpr size_t kMaxSymbolsBytes = size_t{16} << 20;  // of all those of a session
inline constexpr uint32_t kEventsPerChunk = 8192;
inline constexpr uint32_t kMaxEventsPerChunk = 65536;       // a decoder takes no more
inline constexpr size_t kMaxChunkBytes = size_t{64} << 20;  // decompressed
inline constexpr int64_t kMaxWindowNs = 60'000'000'000;     // a longer window is refused

static_assert(kMinRingBytes <= kRingBytes && kRingBytes <= kMaxRingBytes);
static_assert((kRingBytes & (kRingBytes - 1)) == 0, "rings are powers of two");
static_assert(kEventsPerChunk <= kMaxEventsPerChunk);
static_assert((kMaxLaunches & (kMaxLaunches - 1)) == 0);
static_assert((kMaxAllocations & (kMaxAllocations - 1)) == 0);
static_assert(kMaxSchemaFields <= kMaxPayloadWords);
static_assert(kMaxStringBytes < kDefinitionBytes);

}  // namespace poolscope
