#include "agent/cupti_decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iterator>

#include "agent/text.h"
#include "trace/zeroed_memory.h"

namespace poolscope::agent::cupti {
namespace {

constexpr uint32_t kLastKnownKind = 54;  // of CUDA 13.0; what we did not ask for is left alone
constexpr uint32_t kSerialKernel = 3;    // where another client asked for it in place of ours
constexpr uint32_t kNone = ~0u;          // in place of a stream, a context or a device

// How far times of the device, which are interpolated, may be off those of the host.
constexpr uint64_t kSlackNs = 50'000'000;

constexpr uint32_t kRoundsToWait = 10;

enum Memory : uint32_t {
  kUnknown,
  kPageable,
  kPinned,
  kDevice,
  kArray,
  kManaged,
  kPeer,
  kMemories
};
constexpr const char* kMemoryNames[] = {"unknown", "pageable", "pinned", "device",
                                        "array",   "managed",  "peer"};
Memory MemoryOf(uint32_t kind) {  // CUpti_ActivityMemoryKind; 6, 7: static ones
  constexpr Memory kKinds[] = {kUnknown, kPageable, kPinned, kDevice,
                               kArray,   kManaged,  kDevice, kManaged};
  return kind < sizeof(kKinds) / sizeof(kKinds[0]) ? kKinds[kind] : kUnknown;
}

// CUpti_ActivityMemcpyKind: which ends lie in the host's memory.
bool FromHost(uint32_t copy_kind) { return copy_kind == 1 || copy_kind == 3 || copy_kind == 9; }
bool ToHost(uint32_t copy_kind) { return copy_kind == 2 || copy_kind == 4 || copy_kind == 9; }

struct SynchronizationName {
  const char* event;
  const char* kind;
};
constexpr SynchronizationName kSynchronizations[] = {{"synchronize", "unknown"},
                                                     {"synchronize event", "event"},
                                                     {"stream wait event", "stream wait event"},
                                                     {"synchronize stream", "stream"},
                                                     {"synchronize context", "context"}};

// CUpti_ActivityOverheadKind, in steps of 1 << 16 after the first two.
constexpr const char* kOverheads[] = {"unknown",
                                      "driver compiler",
                                      "CUPTI buffer flush",
                                      "CUPTI instrumentation",
                                      "CUPTI resource",
                                      "module loading",
                                      "lazy function loading",
                                      "command buffer full",
                                      "activity buffer request",
                                      "unified memory tracing"};
const char* OverheadName(uint32_t type) {
  const uint32_t index = type < 2 ? type : (type >> 16) + 1;
  return kOverheads[index < std::size(kOverheads) ? index : 0];
}

// What Finish needs of something that happened at one time, to a device as a whole.
struct Instant {
  uint64_t start, end, stream;
  uint32_t device, context, correlation;
};
template <typename T>
Instant AtOnce(const T& source) {
  return {source.start, source.start, kMemoryStream, source.device, 0, source.correlation};
}

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

}  // namespace

bool Place(const DeviceClock& clock, uint64_t called_ns, uint64_t* start_ns, uint64_t* end_ns) {
  const uint64_t first = called_ns > clock.from_ns ? called_ns : clock.from_ns;
  for (const int64_t offset : clock.offsets_ns) {
    const uint64_t start = *start_ns + static_cast<uint64_t>(offset);
    const uint64_t end = *end_ns + static_cast<uint64_t>(offset);
    if (start + kSlackNs < first || end > clock.now_ns + kSlackNs) continue;
    *start_ns = start;
    *end_ns = end;
    return true;
  }
  return false;
}

bool Decoder::Init(const Library* library, Launches* launches, bool late_launches) {
  library_ = library;
  launches_ = launches;
  late_launches_ = late_launches;
  waiting_ = MapZeroed<Waiting>(kMaxWaiting);
  seen_ = MapZeroed<uint64_t>(kSeen);
  return waiting_ != nullptr && seen_ != nullptr && holdings_.Init();
}

// Calls each(record, bytes) for all; false: the library did not know how to go on.
template <typename F>
bool Decoder::Walk(uint8_t* buffer, size_t valid_bytes, F each) {
  const uint8_t* end = buffer + valid_bytes;
  const uint32_t* record = nullptr;
  int result = library_->next_record(buffer, valid_bytes, &record);
  while (result == kSuccess) {
    const uint32_t* next = record;
    result = library_->next_record(buffer, valid_bytes, &next);
    const auto* at = reinterpret_cast<const uint8_t*>(record);
    const auto* until = result == kSuccess ? reinterpret_cast<const uint8_t*>(next) : end;
    if (at < buffer || until <= at || until > end) return false;
    each(record, static_cast<size_t>(until - at));
    record = next;
  }
  return result == kMaxLimitReached;
}

uint64_t Decoder::Count(uint8_t* buffer, size_t valid_bytes) {
  uint64_t count = 0;
  Walk(buffer, valid_bytes, [&](const uint32_t*, size_t) { ++count; });
  return count;
}

void Decoder::ReadLaunches(uint8_t* buffer, size_t valid_bytes, const DeviceClock& clock) {
  Walk(buffer, valid_bytes, [&](const uint32_t* at, size_t bytes) {
    const auto kind = static_cast<Kind>(*at);
    if ((kind != Kind::kRuntime && kind != Kind::kDriver) || bytes < sizeof(ApiRecord)) return;
    const auto* api = reinterpret_cast<const ApiRecord*>(at);
    Launch launch;
    launch.tid = api->thread;
    uint64_t start = api->start, end = api->end;
    if (Place(clock, 0, &start, &end)) launch.called_ns = start;
    launches_->Remember(api->correlation, launch);
  });
}

void Decoder::Decode(ThreadWriter& writer, uint8_t* buffer, size_t valid_bytes,
                     const DeviceClock& clock) {
  const bool whole = Walk(buffer, valid_bytes, [&](const uint32_t* at, size_t bytes) {
    DecodeOne(writer, at, bytes, clock);
  });
  if (!whole) writer.Lose(LossCause::kDeviceUnknown);
}

void Decoder::DecodeOne(ThreadWriter& writer, const uint32_t* at, size_t bytes,
                        const DeviceClock& clock) {
  // The record as T, or null, counted, where it is shorter than T.
  const auto as = [&]<typename T>(const T*) -> const T* {
    if (bytes >= sizeof(T)) return reinterpret_cast<const T*>(at);
    writer.Lose(LossCause::kDeviceUnknown);
    return nullptr;
  };
  Record record;
  uint64_t* fields = record.fields;
  const uint32_t kind = *at == kSerialKernel ? uint32_t(Kind::kConcurrentKernel) : *at;
  switch (static_cast<Kind>(kind)) {
    case Kind::kConcurrentKernel: {
      const auto* kernel = as(static_cast<const KernelRecord*>(nullptr));
      if (kernel == nullptr) return;
      record.type = RecordType::kKernel;
      record.name = NameOf(writer, kernel->name != nullptr ? kernel->name : "(unnamed kernel)");
      const auto product = [](const int32_t(&size)[3]) {
        return static_cast<uint64_t>(int64_t{size[0]} * size[1] * size[2]);
      };
      fields[4] = product(kernel->grid);
      fields[5] = product(kernel->block);
      fields[6] = kernel->registers;
      fields[7] = static_cast<uint64_t>(int64_t{kernel->static_shared_bytes} +
                                        kernel->dynamic_shared_bytes);
      fields[8] = kernel->graph;
      fields[9] = kernel->graph_node;
      return Finish(writer, *kernel, &record, clock);
    }
    case Kind::kMemcpy: {
      const auto* copy = as(static_cast<const MemcpyRecord*>(nullptr));
      if (copy == nullptr) return;
      const Memory from = MemoryOf(copy->from_kind), to = MemoryOf(copy->to_kind);
      NameCopy(from, to, &record);
      fields[4] = copy->bytes;
      fields[7] = FromHost(copy->copy_kind) ? kNoDevice : copy->device;
      fields[8] = ToHost(copy->copy_kind) ? kNoDevice : copy->device;
      return Finish(writer, *copy, &record, clock);
    }
    case Kind::kMemcpyPeer: {
      const auto* copy = as(static_cast<const MemcpyPeerRecord*>(nullptr));
      if (copy == nullptr) return;
      const bool sends = copy->device == copy->from_device;
      const Memory from = sends ? kDevice : kPeer, to = sends ? kPeer : kDevice;
      NameCopy(from, to, &record);
      fields[4] = copy->bytes;
      fields[7] = copy->from_device;
      fields[8] = copy->to_device;
      return Finish(writer, *copy, &record, clock);
    }
    case Kind::kMemset: {
      const auto* set = as(static_cast<const MemsetRecord*>(nullptr));
      if (set == nullptr) return;
      record.type = RecordType::kMemset;
      record.name = NameOf(writer, "memset");
      fields[4] = set->bytes;
      return Finish(writer, *set, &record, clock);
    }
    case Kind::kMemory: {
      const auto* memory = as(static_cast<const MemoryRecord*>(nullptr));
      if (memory != nullptr) DecodeMemory(writer, *memory, clock);
      return;
    }
    case Kind::kMemoryPool: {
      const auto* pool = as(static_cast<const MemoryPoolRecord*>(nullptr));
      if (pool != nullptr) DecodePool(writer, *pool, clock);
      return;
    }
    case Kind::kSynchronization: {
      const auto* wait = as(static_cast<const SynchronizationRecord*>(nullptr));
      if (wait == nullptr) return;
      const auto& name =
          kSynchronizations[wait->type < std::size(kSynchronizations) ? wait->type : 0];
      record.type = RecordType::kSynchronization;
      record.name = NameOf(writer, name.event);
      fields[2] = NameOf(writer, name.kind);
      return Finish(writer, *wait, &record, clock);
    }
    case Kind::kOverhead: {
      const auto* overhead = as(static_cast<const OverheadRecord*>(nullptr));
      if (overhead == nullptr) return;
      const char* name = OverheadName(overhead->type);
      record.type = RecordType::kOverhead;
      record.name = NameOf(writer, name);
      record.stream = kNoStream;
      record.start_ns = overhead->start;
      record.end_ns = overhead->end;
      fields[kOverheadKindField] = record.name;
      if (SeenBefore(record)) return;
      if (bytes >= sizeof(LongOverheadRecord)) {
        free(reinterpret_cast<const LongOverheadRecord*>(at)->details);
      }
      Launch launch;
      if (overhead->object_kind == kObjectThread) launch.tid = overhead->object[1];
      if (overhead->end < overhead->start) return writer.Lose(LossCause::kDeviceTime);
      return WriteAsLaunched(writer, launch, clock, &record);
    }
    case Kind::kContext: {
      const auto* context = as(static_cast<const ContextRecord*>(nullptr));
      if (context != nullptr) Learn(context->context, context->device);
      return;
    }
    default:
      if (*at == 0 || *at > kLastKnownKind) writer.Lose(LossCause::kDeviceUnknown);
      return;
  }
}

// Apart, as kernels go faster without it.
[[gnu::noinline]] void Decoder::DecodeMemory(ThreadWriter& writer, const MemoryRecord& memory,
                                             const DeviceClock& clock) {
  if (memory.operation - 1 > 1) return writer.Lose(LossCause::kDeviceUnknown);
  MemoryKind kind = memory.memory < uint32_t(MemoryKind::kPool) ? MemoryKind(memory.memory)
                                                                : MemoryKind::kUnknown;
  if (memory.is_async != 0 && kind == MemoryKind::kDevice) kind = MemoryKind::kPool;
  Record record;
  NameMemory(MemoryOperation(memory.operation), kind, &record);
  record.fields[kBytesField] = memory.bytes;
  record.fields[kAddressField] = memory.address;
  record.fields[kStreamField] = memory.stream == kNone ? kNoStream : memory.stream;
  record.fields[kPoolField] = memory.pool;
  record.fields[kPoolBytesField] = memory.pool_type == kLocalPool ? memory.pool_bytes : 0;
  record.fields[kVariableField] = NameOf(writer, memory.variable);
  Finish(writer, AtOnce(memory), &record, clock);
}

[[gnu::noinline]] void Decoder::DecodePool(ThreadWriter& writer, const MemoryPoolRecord& pool,
                                           const DeviceClock& clock) {
  if (pool.operation - 1 > 2) return writer.Lose(LossCause::kDeviceUnknown);
  Record record;
  NameMemory(MemoryOperation(pool.operation + 2), MemoryKind::kPool, &record);
  record.fields[kStreamField] = kNoStream;
  record.fields[kPoolField] = pool.pool;
  record.fields[kPoolBytesField] = pool.pool_type == kLocalPool ? pool.pool_bytes : 0;
  Finish(writer, AtOnce(pool), &record, clock);
}

// What all records have, and then the record is as good as written.
template <typename T>
void Decoder::Finish(ThreadWriter& writer, const T& source, Record* record,
                     const DeviceClock& clock) {
  if (source.start == 0 || source.end < source.start) return writer.Lose(LossCause::kDeviceTime);
  record->start_ns = source.start;
  record->end_ns = source.end;
  record->context = source.context;
  record->stream = source.stream == kNone ? kNoStream : source.stream;
  record->fields[kCorrelationField] = source.correlation;
  if constexpr (requires { source.device; }) {
    record->device = source.device == kNone ? kNoDevice : source.device;
    Learn(source.context, source.device);
  } else {
    record->device = DeviceOf(source.context);
  }
  if (SeenBefore(*record)) return;
  Launch launch;
  const bool known = launches_->Find(source.correlation, &launch);
  if (!known && late_launches_ && waiting_count_ < kMaxWaiting) {
    waiting_[waiting_count_++] = {*record, 0};
  } else {
    WriteAsLaunched(writer, launch, clock, record);
  }
}

void Decoder::WriteAsLaunched(ThreadWriter& writer, const Launch& launch, const DeviceClock& clock,
                              Record* record) {
  if (!Place(clock, launch.called_ns, &record->start_ns, &record->end_ns)) {
    return writer.Lose(LossCause::kDeviceTime);
  }
  record->fields[kLaunchTidField] = launch.tid;
  if (record->type < RecordType::kSynchronization) {
    record->fields[kRangeField] = launch.range;
    record->fields[kRangeOpenIdField] = launch.open_id;
  }
  if (record->type == RecordType::kKernel) {
    record->fields[kQueuedField] = launch.called_ns;
  } else if (record->type == RecordType::kMemory) {
    TakeMove(writer, *record);
  }
  Write(writer, *record);
}

void Decoder::FinishRound(ThreadWriter& writer, const DeviceClock& clock, bool all) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < waiting_count_; ++i) {
    Waiting& each = waiting_[i];
    Launch launch;
    if (launches_->Find(static_cast<uint32_t>(each.record.fields[kCorrelationField]), &launch) ||
        all || ++each.rounds > kRoundsToWait) {
      WriteAsLaunched(writer, launch, clock, &each.record);
    } else {
      waiting_[kept++] = each;
    }
  }
  waiting_count_ = kept;
  holdings_.Settle(writer);
}

void Decoder::NameCopy(uint32_t from, uint32_t to, Record* record) {
  static_assert(std::size(kMemoryNames) == kMemories);
  CopyName& name = copy_names_[from][to];
  if (name.event == 0) {
    char event[40];
    snprintf(event, sizeof(event), "copy %s to %s", kMemoryNames[from], kMemoryNames[to]);
    name = {InternText(event), InternText(kMemoryNames[from]), InternText(kMemoryNames[to])};
  }
  record->type = RecordType::kCopy;
  record->name = name.event;
  record->fields[kFromField] = name.from;
  record->fields[kToField] = name.to;
}

void Decoder::NameMemory(MemoryOperation operation, MemoryKind memory, Record* record) {
  constexpr const char* kOperations[] = {"", "allocate", "release", "create", "destroy", "trim"};
  constexpr const char* kKinds[] = {"unknown", "pageable",      "pinned",         "device", "array",
                                    "managed", "device static", "managed static", "pool"};
  static_assert(std::size(kOperations) == kMemoryOperations && std::size(kKinds) == kMemoryKinds);
  MemoryName& name = memory_names_[size_t(operation)][size_t(memory)];
  if (name.event == 0) {
    char event[40];
    snprintf(event, sizeof(event), "%s %s", kOperations[size_t(operation)], kKinds[size_t(memory)]);
    name = {InternText(event), InternText(kKinds[size_t(memory)])};
  }
  record->type = RecordType::kMemory;
  record->operation = operation;
  record->memory = memory;
  record->name = name.event;
  record->fields[kMemoryKindField] = name.kind;
}

[[gnu::noinline]] void Decoder::TakeMove(ThreadWriter& writer, const Record& record) {
  const uint64_t* fields = record.fields;
  holdings_.Add(writer, {record.start_ns, record.operation, record.memory, record.device,
                         fields[kAddressField], fields[kBytesField], fields[kPoolField],
                         fields[kPoolBytesField]});
}

bool Decoder::SeenBefore(const Record& record) {
  uint64_t hash = Mix(Mix(0, record.start_ns), record.end_ns);
  hash = Mix(hash, record.fields[kCorrelationField] | record.stream << 32);
  hash = Mix(hash, record.context | uint64_t{record.name} << 32);
  static_assert(kGraphNodeField == kAddressField);
  hash = Mix(hash, record.fields[kGraphNodeField]);
  uint64_t& seen = seen_[hash >> 49];
  if (seen == hash) return true;
  seen = hash;
  return false;
}

uint64_t Decoder::DeviceOf(uint32_t context) const {
  const auto& known = contexts_[context % kContexts];
  return known.context == context && context != 0 ? known.device : kNoDevice;
}

void Decoder::Learn(uint32_t context, uint32_t device) {
  if (context == 0) return;
  contexts_[context % kContexts] = {context, device};
  if (device < 64) devices_ |= uint64_t{1} << device;
}

}  // namespace poolscope::agent::cupti
