#include "agent/nccl_operations.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "agent/lanes.h"
#include "agent/process.h"
#include "agent/registry.h"
#include "agent/text.h"

namespace poolscope::agent::nccl {

struct Communicator {
  bool open;
  uint32_t lane;  // kNoLane: not yet known which
  uint64_t hash;
  int rank, ranks;
  int64_t timer_offset_ns;  // smallest CLOCK_MONOTONIC − globaltimer seen; INT64_MAX: none
};

namespace {

constexpr uint32_t kMaxCommunicators = 1024;
constexpr uint32_t kMaxOperations = 8192;
constexpr int64_t kPatienceNs = 2'000'000'000;  // for parts that never come
constexpr uint32_t kLookedAtPerStart = 16;      // entries that are looked at for such

enum class HandleKind : uint64_t { kOperation = 1, kChannel = 2, kProxy = 3 };

struct Operation {
  uint64_t generation;  // of the entry, from 1; 0: never used
  Communicator* communicator;
  uint32_t lane;
  uint32_t function, datatype, algorithm, protocol;  // string ids
  uint64_t bytes, count, sequence;
  int64_t root_or_peer;
  uint32_t channels;
  uint32_t tid;         // that called
  int64_t called_ns;    // CLOCK_MONOTONIC
  int64_t enqueued_ns;  // 0: not yet
  uint32_t running;     // channels and proxies
  uint32_t channels_done;
  int64_t first_ns, last_ns;         // of its channels, else of its proxies; 0: none
  uint64_t first_timer, last_timer;  // of its channels; 0: not known
  bool reported;
};

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
// Guarded by mutex.
Communicator communicators[kMaxCommunicators];
Operation operations[kMaxOperations];
uint16_t free_entries[kMaxOperations];  // the longest free first
uint32_t free_from = 0, free_count = 0, ever_used = 0;
uint32_t scan_at = 0;
bool expect_channels = false, expect_proxies = false;
bool defined = false;
uint32_t schema = 0, domain = 0, timing_enqueued = 0, timing_proxy = 0, timing_kernel = 0;

class Locked {
 public:
  Locked() { pthread_mutex_lock(&mutex); }
  ~Locked() { pthread_mutex_unlock(&mutex); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

int64_t Now() { return MonotonicNs(); }

// The payload of an operation, in the order of its words.
constexpr struct {
  const char* name;
  FieldType type;
} kFields[] = {{"communicator", FieldType::kUint64}, {"rank", FieldType::kInt64},
               {"ranks", FieldType::kInt64},         {"sequence", FieldType::kUint64},
               {"bytes", FieldType::kUint64},        {"count", FieldType::kUint64},
               {"datatype", FieldType::kString},     {"peer", FieldType::kInt64},
               {"algorithm", FieldType::kString},    {"protocol", FieldType::kString},
               {"channels", FieldType::kUint64},     {"tid", FieldType::kUint64},
               {"called_ns", FieldType::kInt64},     {"timing", FieldType::kString}};
constexpr uint32_t kFieldCount = std::size(kFields);
static_assert(kFieldCount + 1 <= kMaxPayloadWords && kFieldCount <= kMaxSchemaFields);

void Define() {
  if (defined) return;
  defined = true;
  SchemaFieldDef fields[kFieldCount];
  for (uint32_t i = 0; i < kFieldCount; ++i) {
    fields[i] = {InternText(kFields[i].name), static_cast<uint16_t>(kFields[i].type), 0};
  }
  schema = InternText("nccl.operation");
  session.Define(DefinitionKind::kSchema, schema, fields, sizeof(fields), 0);
  domain = RegisterDomain(InternText("nccl"));
  timing_enqueued = InternText("enqueued");
  timing_proxy = InternText("proxy");
  timing_kernel = InternText("kernel");
}

void FindLane(Communicator& communicator, const char* name) {
  char text[160];
  snprintf(text, sizeof(text), "NCCL %.64s%s%016llx rank %d", name == nullptr ? "" : name,
           name == nullptr ? "" : " ", static_cast<unsigned long long>(communicator.hash),
           communicator.rank);
  communicator.lane = LaneOf({InternText(text), LaneKind::kCommunicator, kNoDevice,
                              communicator.hash, static_cast<uint64_t>(communicator.rank)});
}

void* HandleOf(const Operation& operation, HandleKind kind) {
  const auto index = static_cast<uint64_t>(&operation - operations);
  return reinterpret_cast<void*>(operation.generation << 16 | index << 2 |
                                 static_cast<uint64_t>(kind));
}
static_assert(kMaxOperations <= 1u << 14);

HandleKind KindOf(void* handle) {
  return static_cast<HandleKind>(reinterpret_cast<uintptr_t>(handle) & 3);
}

// Null: the handle is no longer, or never was, one of an operation.
Operation* Find(void* handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  Operation& operation = operations[(number >> 2) & (kMaxOperations - 1)];
  const bool current =
      (number & 3) != 0 && operation.generation != 0 && operation.generation == number >> 16;
  return current ? &operation : nullptr;
}

bool IsComplete(const Operation& operation) {
  if (operation.reported || operation.enqueued_ns == 0 || operation.running > 0) return false;
  if (expect_channels) return operation.channels_done >= std::max(1u, operation.channels);
  return !expect_proxies || operation.last_ns != 0;
}

// What is written of a complete operation, beyond the lock.
struct Report {
  bool wanted = false;
  Operation operation;
  uint64_t communicator;
  int rank, ranks;
  int64_t start_ns, end_ns;
  uint32_t timing;
};

// The entry is free from now on, but keeps what it says until it is used again.
Report Complete(Operation& operation) {
  Report report;
  report.wanted = operation.lane != kNoLane;
  const Communicator& communicator = *operation.communicator;
  report.communicator = communicator.hash;
  report.rank = communicator.rank;
  report.ranks = communicator.ranks;
  report.start_ns = operation.called_ns;
  report.end_ns = operation.enqueued_ns;
  report.timing = timing_enqueued;
  if (operation.last_ns != 0) {
    report.timing = operation.channels_done > 0 ? timing_kernel : timing_proxy;
    report.start_ns = operation.first_ns;
    report.end_ns = operation.last_ns;
    if (operation.first_timer != 0 && operation.last_timer >= operation.first_timer) {
      report.start_ns = static_cast<int64_t>(operation.first_timer) + communicator.timer_offset_ns;
      report.end_ns = static_cast<int64_t>(operation.last_timer) + communicator.timer_offset_ns;
    }
  }
  report.operation = operation;
  operation.reported = true;
  free_entries[(free_from + free_count++) % kMaxOperations] =
      static_cast<uint16_t>(&operation - operations);
  return report;
}

void Write(const Report& report) {
  if (!report.wanted) return;
  const Inside inside(true);
  if (!inside) return;
  const Operation& operation = report.operation;
  const uint64_t words[1 + kFieldCount] = {schema | uint64_t{kFieldCount} << 32,
                                           report.communicator,
                                           static_cast<uint64_t>(int64_t{report.rank}),
                                           static_cast<uint64_t>(int64_t{report.ranks}),
                                           operation.sequence,
                                           operation.bytes,
                                           operation.count,
                                           operation.datatype,
                                           static_cast<uint64_t>(operation.root_or_peer),
                                           operation.algorithm,
                                           operation.protocol,
                                           operation.channels,
                                           operation.tid,
                                           static_cast<uint64_t>(operation.called_ns),
                                           report.timing};
  EventPayload payload;
  payload.words = 1 + kFieldCount;
  payload.groups = words;
  inside->Activity(operation.lane, domain, operation.function, 0,
                   static_cast<uint64_t>(report.start_ns), static_cast<uint64_t>(report.end_ns),
                   true, payload);
}

// An operation whose parts never came, among the next few entries; null: none.
Operation* Overdue(int64_t now) {
  for (uint32_t i = 0; i < kLookedAtPerStart; ++i) {
    Operation& operation = operations[scan_at];
    scan_at = (scan_at + 1) % kMaxOperations;
    if (operation.generation == 0) scan_at = 0;
    if (operation.reported || operation.enqueued_ns == 0 || operation.running > 0) continue;
    if (now - std::max(operation.enqueued_ns, operation.last_ns) > kPatienceNs) return &operation;
  }
  return nullptr;
}

Operation* TakeEntry() {
  if (ever_used < kMaxOperations) return &operations[ever_used++];
  if (free_count == 0) return nullptr;
  Operation& entry = operations[free_entries[free_from]];
  free_from = (free_from + 1) % kMaxOperations;
  --free_count;
  return &entry;
}

void* StartOperation(Communicator& communicator, const Descriptor& descriptor) {
  Report overdue;
  void* handle = nullptr;
  {
    const Registering registering;
    if (!registering) return nullptr;
    const uint32_t function = InternText(descriptor.function);
    const uint32_t datatype = InternText(descriptor.datatype);
    const uint32_t algorithm = InternText(descriptor.algorithm);
    const uint32_t protocol = InternText(descriptor.protocol);
    const Locked locked;
    if (communicator.lane == kNoLane && descriptor.communicator != 0) {
      communicator.hash = descriptor.communicator;
      communicator.rank = descriptor.rank;
      FindLane(communicator, descriptor.communicator_name);
    }
    if (Operation* late = Overdue(Now())) overdue = Complete(*late);
    if (Operation* entry = TakeEntry()) {
      const uint64_t generation = entry->generation + 1;
      *entry = {};
      entry->generation = generation & ((uint64_t{1} << 47) - 1);
      entry->communicator = &communicator;
      entry->lane = communicator.lane;
      entry->function = function;
      entry->datatype = datatype;
      entry->algorithm = algorithm;
      entry->protocol = protocol;
      entry->count = descriptor.count;
      entry->bytes = descriptor.count * ElementBytes(descriptor.datatype);
      entry->sequence = descriptor.type == kP2p ? ~uint64_t{0} : descriptor.sequence;
      entry->root_or_peer = descriptor.root_or_peer;
      // What copy engines do has no channels.
      entry->channels = descriptor.channels;
      if (descriptor.type == kCeColl) entry->channels_done = 1;
      entry->tid = static_cast<uint32_t>(syscall(SYS_gettid));
      entry->called_ns = Now();
      handle = HandleOf(*entry, HandleKind::kOperation);
    }
  }
  Write(overdue);
  if (handle == nullptr) {
    const Inside inside(true);
    if (inside) inside->Lose(LossCause::kOpenTableFull);
  }
  return handle;
}

void* StartPart(const Descriptor& descriptor) {
  const Registering registering;
  if (!registering) return nullptr;
  const Locked locked;
  Operation* operation = Find(descriptor.parent);
  if (operation == nullptr) return nullptr;
  if (operation->reported) {  // it runs again
    for (uint32_t i = 0; i < free_count; ++i) {
      uint16_t& entry = free_entries[(free_from + i) % kMaxOperations];
      if (&operations[entry] != operation) continue;
      for (; i + 1 < free_count; ++i) {
        free_entries[(free_from + i) % kMaxOperations] =
            free_entries[(free_from + i + 1) % kMaxOperations];
      }
      --free_count;
    }
    operation->reported = false;
    operation->channels_done = 0;
    operation->first_ns = operation->last_ns = 0;
    operation->first_timer = operation->last_timer = 0;
  }
  const int64_t now = Now();
  ++operation->running;
  if (operation->first_ns == 0) operation->first_ns = now;
  if (descriptor.type == kProxyOp) return HandleOf(*operation, HandleKind::kProxy);
  if (descriptor.timer != 0) {
    Communicator& communicator = *operation->communicator;
    communicator.timer_offset_ns =
        std::min(communicator.timer_offset_ns, now - static_cast<int64_t>(descriptor.timer));
    if (operation->first_timer == 0 || descriptor.timer < operation->first_timer) {
      operation->first_timer = descriptor.timer;
    }
  }
  return HandleOf(*operation, HandleKind::kChannel);
}

}  // namespace

Communicator* OpenCommunicator(const char* name, uint64_t hash, int rank, int ranks) {
  const Registering registering;
  if (!registering) return nullptr;
  const Locked locked;
  Define();
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
    Report report;
    {
      const Registering registering;
      if (!registering) return;
      const Locked locked;
      Operation& operation = operations[i];
      if (operation.generation == 0) break;
      if (operation.communicator != communicator) continue;
      if (!operation.reported) {  // its channels will not come any more
        report = Complete(operation);
        report.wanted = report.wanted && operation.enqueued_ns != 0;
      }
      ++operation.generation;
      operation.communicator = nullptr;
    }
    Write(report);
  }
  const Registering registering;
  if (!registering) return;
  const Locked locked;
  communicator->open = false;
}

void* Start(Communicator* communicator, const Descriptor& descriptor) {
  if (communicator == nullptr) return nullptr;
  switch (descriptor.type) {
    case kColl:
    case kP2p:
    case kCeColl:
      return StartOperation(*communicator, descriptor);
    case kProxyOp:  // of another process its parent is an address over there
      return descriptor.pid == getpid() ? StartPart(descriptor) : nullptr;
    case kKernelCh:
      return StartPart(descriptor);
    default:
      return nullptr;
  }
}

void StopChannel(void* handle, uint64_t timer) {
  if (timer == 0 || KindOf(handle) != HandleKind::kChannel) return;
  const Registering registering;
  if (!registering) return;
  const Locked locked;
  Operation* operation = Find(handle);
  if (operation == nullptr) return;
  operation->last_timer = std::max(operation->last_timer, timer);
  Communicator& communicator = *operation->communicator;
  communicator.timer_offset_ns =
      std::min(communicator.timer_offset_ns, Now() - static_cast<int64_t>(timer));
}

void Stop(void* handle) {
  Report report;
  {
    const Registering registering;
    if (!registering) return;
    const Locked locked;
    Operation* operation = Find(handle);
    if (operation == nullptr || operation->reported) return;
    const int64_t now = Now();
    if (KindOf(handle) == HandleKind::kOperation) {
      operation->enqueued_ns = now;
    } else if (operation->running > 0) {
      --operation->running;
      operation->last_ns = now;
      if (KindOf(handle) == HandleKind::kChannel) ++operation->channels_done;
    }
    if (IsComplete(*operation)) report = Complete(*operation);
  }
  Write(report);
}

void Expect(bool channels, bool proxies) {
  const Locked locked;
  expect_channels = channels;
  expect_proxies = proxies;
}

void LockOperations() { pthread_mutex_lock(&mutex); }
void UnlockOperations() { pthread_mutex_unlock(&mutex); }

void ForgetOperationsInChild() {
  pthread_mutex_init(&mutex, nullptr);
  for (Operation& operation : operations) {  // handles of the parent mean nothing here
    if (operation.generation == 0) break;
    operation.generation += 1;
    operation.reported = true;
  }
  free_from = 0;
  free_count = ever_used;
  for (uint32_t i = 0; i < ever_used; ++i) free_entries[i] = static_cast<uint16_t>(i);
  for (Communicator& communicator : communicators) communicator.open = false;
}

}  // namespace poolscope::agent::nccl
