#pragma once

#include <cstddef>
#include <cstdint>

// CUPTI's numbers and records, as far as the agent reads them. Our own declarations, so that the
// agent builds without CUDA; tests compare them with NVIDIA's header where it is there.

namespace poolscope::agent::cupti {

inline constexpr int kSuccess = 0;  // CUptiResult
inline constexpr int kMaxLimitReached = 12;
inline constexpr int kMultipleSubscribers = 39;

inline constexpr uint32_t kFlushForced = 1;         // CUPTI_ACTIVITY_FLAG_FLUSH_FORCED
inline constexpr uint32_t kThreadIdOfSystem = 1;    // CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM
inline constexpr int kZeroedOutBuffer = 5;          // CUPTI_ACTIVITY_ATTR_ZEROED_OUT_...
inline constexpr uint32_t kNullBufferVersion = 27;  // from here on a null buffer is allowed

enum class Kind : uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kDriver = 4,
  kRuntime = 5,
  kContext = 9,
  kConcurrentKernel = 10,
  kOverhead = 17,
  kMemcpyPeer = 22,
  kSynchronization = 38,
  kMemory = 49,  // CUPTI_ACTIVITY_KIND_MEMORY2
  kMemoryPool = 50,
};

// --- Records ---
// From CUDA 11.8 to 13.5 these fields have lain where they are here; newer versions make records
// longer at their end. How long one is, only cuptiActivityGetNextRecord of the same library knows
// (CUDA 11.8 and 12.1 both call themselves version 18, and differ).

struct KernelRecord {
  uint32_t kind;
  uint16_t configuration;
  uint16_t registers;  // per thread
  uint32_t cache[2];
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3];
  int32_t static_shared_bytes, dynamic_shared_bytes;
  uint32_t local_bytes[2];
  uint32_t correlation;
  int64_t grid_id;
  const char* name;
  void* reserved;
  uint64_t queued, submitted;
  uint32_t launch;
  uint32_t shared_executed_bytes;
  uint64_t graph_node;
  uint32_t shared_limit;
  uint32_t graph;
};
static_assert(sizeof(KernelRecord) == 160 && offsetof(KernelRecord, start) == 16 &&
              offsetof(KernelRecord, correlation) == 92 && offsetof(KernelRecord, name) == 104);

struct MemcpyRecord {
  uint32_t kind;
  uint8_t copy_kind, from_kind, to_kind, flags;
  uint64_t bytes;
  uint64_t start, end;
  uint32_t device, context, stream;
  uint32_t correlation;
};
static_assert(sizeof(MemcpyRecord) == 48);

struct MemcpyPeerRecord {
  uint32_t kind;
  uint8_t copy_kind, from_kind, to_kind, flags;
  uint64_t bytes;
  uint64_t start, end;
  uint32_t device, context, stream;
  uint32_t from_device, from_context, to_device, to_context;
  uint32_t correlation;
};
static_assert(sizeof(MemcpyPeerRecord) == 64);

struct MemsetRecord {
  uint32_t kind;
  uint32_t value;
  uint64_t bytes;
  uint64_t start, end;
  uint32_t device, context, stream;
  uint32_t correlation;
};
static_assert(sizeof(MemsetRecord) == 48);

struct SynchronizationRecord {
  uint32_t kind;
  uint32_t type;
  uint64_t start, end;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;  // ~0: none
  uint32_t event;
};
static_assert(sizeof(SynchronizationRecord) == 40);

// What an allocation or a release of memory says; it happens at one time.
inline constexpr uint32_t kLocalPool = 1;  // CUpti_ActivityMemoryPoolType
struct MemoryRecord {
  uint32_t kind;
  uint32_t operation;  // CUpti_ActivityMemoryOperationType
  uint32_t memory;     // CUpti_ActivityMemoryKind
  uint32_t correlation;
  uint64_t address, bytes;
  uint64_t start;
  uint64_t program_counter;
  uint32_t process, device, context, stream;  // ~0: none
  const char* variable;                       // of static memory, else null
  uint32_t is_async, padding;
  uint32_t pool_type, pool_padding;
  uint64_t pool;  // its address
  uint64_t release_threshold;
  uint64_t pool_bytes;  // of local pools: what it has reserved
};
static_assert(sizeof(MemoryRecord) == 112);

struct MemoryPoolRecord {
  uint32_t kind;
  uint32_t operation;  // CUpti_ActivityMemoryPoolOperationType
  uint32_t pool_type;
  uint32_t correlation;
  uint32_t process, device;
  uint64_t kept_bytes;
  uint64_t pool, pool_bytes;
  uint64_t release_threshold;
  uint64_t start;
};
static_assert(sizeof(MemoryPoolRecord) == 64);

inline constexpr uint32_t kObjectThread = 2;  // CUPTI_ACTIVITY_OBJECT_THREAD

struct OverheadRecord {
  uint32_t kind;
  uint32_t type;
  uint32_t object_kind;
  uint32_t object[3];  // of a thread: process, thread
  uint64_t start, end;
};
static_assert(sizeof(OverheadRecord) == 40);

struct LongOverheadRecord {  // from CUDA 12.4
  OverheadRecord short_one;
  uint32_t correlation, reserved;
  void* details;  // to be freed by who reads it, or null
};
static_assert(sizeof(LongOverheadRecord) == 56);

struct ApiRecord {
  uint32_t kind;
  uint32_t callback;
  uint64_t start, end;
  uint32_t process, thread;
  uint32_t correlation;
  uint32_t result;
};
static_assert(sizeof(ApiRecord) == 40);

struct ContextRecord {
  uint32_t kind;
  uint32_t context, device;
  uint32_t rest;
};
static_assert(sizeof(ContextRecord) == 16);

// --- Callbacks ---
inline constexpr uint32_t kDriverApi = 1, kRuntimeApi = 2;  // CUpti_CallbackDomain
inline constexpr int kApiEnter = 0;

struct CallbackData {
  int site;
  const char* function;
  const void* parameters;
  void* result;
  const char* symbol;
  void* context;
  uint32_t context_id;
  uint64_t* user;
  uint32_t correlation;
};
static_assert(offsetof(CallbackData, correlation) == 64);

struct SubscriberParameters {  // from CUDA 13.0
  size_t bytes;                // of this
  const char* name;
  char* holder;  // who has subscribed already
  size_t holder_bytes;
};
static_assert(sizeof(SubscriberParameters) == 32);

}  // namespace poolscope::agent::cupti
