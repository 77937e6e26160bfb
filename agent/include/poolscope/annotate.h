// Poolscope's annotation contract: how a disaggregated job marks itself, over NVTX alone.
//
// Header-only, C and C++. The job links nothing of Poolscope: with no tool attached every call is a
// test of a null handle; any NVTX tool sees the same ranges, marks and counters. Every function may
// be called from any thread; none fails, none blocks.
//
// What a job marks:
//   who      poolscope_worker   once on each thread that does a pool's work
//            poolscope_link     once per link; poolscope_setting for the knobs of the run
//   work     poolscope_begin(POOLSCOPE_WORK, op) ... poolscope_end_work(&w)
//   host     poolscope_begin(POOLSCOPE_HOST, op) ... poolscope_end() where a host feeds a device
//   waits    poolscope_begin(POOLSCOPE_WAIT_LINK, link) ... poolscope_end_wait(source, sequence)
//   stages   poolscope_begin(POOLSCOPE_TRANSFER, link) ... poolscope_end_transfer(&t)
//            poolscope_queue_begin / poolscope_queue_end where another thread takes the message
//   numbers  poolscope_counter / poolscope_sample: "<link>.depth", "<link>.credits", "loss", ...
//   progress poolscope_step once per optimizer update, poolscope_discard per message thrown away
//   faults   poolscope_fault for what went wrong on the wire of a link and was put right
//
// Begin/end pairs nest per thread. Work and wait ranges must not overlap on one thread: end the
// work before waiting. A worker may have several threads: one that launches (POOLSCOPE_HOST) and
// one whose POOLSCOPE_WORK ranges are what its device does; where both hold, the device counts.
// Strings come from poolscope_name(), registered once and reused.
//
// Messages and work are joined by keys: a transfer is (link, source, sequence), carries the step
// and micro-batch of the work that produced it, and its apply stage lies on the worker that
// consumed it.
#pragma once

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define POOLSCOPE_NO_VALUE UINT64_MAX  // a field that does not apply

// NVTX category of an event in domain "poolscope". `name` below is the event's message.
enum poolscope_category {
  POOLSCOPE_WORK = 1,          // the pool's own work; name = operation ("forward", "optimizer")
  POOLSCOPE_TRANSFER = 2,      // one stage of a transfer; name = link
  POOLSCOPE_WAIT_LINK = 3,     // nothing to do until link `name` delivers
  POOLSCOPE_BLOCKED_LINK = 4,  // has output, but the buffer of link `name` is full
  POOLSCOPE_WAIT_CREDIT = 5,   // could produce, but the lag bound forbids it; name = link
  POOLSCOPE_WAIT_PEER = 6,     // in a collective inside its own pool; name = collective
  POOLSCOPE_INPUT = 7,         // data loading
  POOLSCOPE_OTHER_WORK = 8,    // checkpoint, evaluation, side work
  POOLSCOPE_STEP = 9,          // mark: one optimizer update
  POOLSCOPE_DISCARD = 10,      // mark: a message was thrown away; name = link
  POOLSCOPE_PHASE = 11,        // warm-up, compile, evaluation: advice leaves it out; name = phase
  POOLSCOPE_HOST = 12,         // host work that feeds a device (launching); name = operation
  POOLSCOPE_FAULT = 13,        // mark: something went wrong on the wire of link `name`
  POOLSCOPE_WAIT_DEVICE = 14   // in line for a device that another worker holds: state idle
};

enum poolscope_stage {
  POOLSCOPE_QUEUED = 0,  // from hand-over to the link until the wire takes it
  POOLSCOPE_ENCODE = 1,
  POOLSCOPE_WIRE = 2,  // first byte sent until last byte received, latency included
  POOLSCOPE_DECODE = 3,
  POOLSCOPE_APPLY = 4,   // the consumer uses it (reduces a gradient, installs weights)
  POOLSCOPE_RECEIVE = 5  // the receiving process' part of the wire stage, which is then the
                         // sender's: on the wire is from the first begin until the last end
};

// What went wrong on a wire. The wire stage of a message lasts until all of it has arrived, however
// often parts of it were sent; its wire_bytes are those of one crossing.
enum poolscope_fault_kind {
  POOLSCOPE_RETRY = 0,      // `bytes` of the message were sent again
  POOLSCOPE_CORRUPT = 1,    // they arrived damaged and were thrown away
  POOLSCOPE_DUPLICATE = 2,  // they arrived once more and were thrown away
  POOLSCOPE_LOST = 3        // the message has not arrived and will not (best effort)
};

// What the cost of an operation grows with.
enum poolscope_scope {
  POOLSCOPE_PER_MICRO_BATCH = 0,  // once per micro-batch, whoever does it
  POOLSCOPE_PER_SHARD = 1,        // divides by the number of workers of the pool
  POOLSCOPE_FIXED = 2             // the same on every worker
};

typedef struct poolscope_work {
  uint64_t step;         // the step that the work is for
  uint64_t micro_batch;  // within the step, or POOLSCOPE_NO_VALUE
  uint64_t version;      // version of the weights it used or produced
  uint64_t scope;        // enum poolscope_scope
  uint64_t cpu_ns;       // thread CPU time, or POOLSCOPE_NO_VALUE (devices, sleeping emulation)
} poolscope_work;

typedef struct poolscope_transfer {
  uint64_t stage;            // enum poolscope_stage
  uint64_t source;           // index of the sending worker in its pool
  uint64_t destination;      // index of the receiving worker in its pool
  uint64_t sequence;         // grows by one per (link, source)
  uint64_t version;          // weights: the version carried; gradients: the version computed with
  uint64_t applied_version;  // at apply of gradients: the version about to be modified
  uint64_t raw_bytes;        // before encoding
  uint64_t wire_bytes;       // what crosses the wire
  uint64_t step;             // step and micro-batch of the work that produced it
  uint64_t micro_batch;
  nvtxStringHandle_t codec;  // poolscope_name("bf16"); NULL is none
} poolscope_transfer;

typedef struct poolscope_fault_info {
  uint64_t kind;    // enum poolscope_fault_kind
  uint64_t source;  // the message, as in poolscope_transfer; what is not known: POOLSCOPE_NO_VALUE
  uint64_t destination;
  uint64_t sequence;
  uint64_t bytes;  // of the wire
} poolscope_fault_info;

typedef struct poolscope_step_info {
  uint64_t step;           // number of the update, from 0
  uint64_t version;        // version of the weights that it made
  uint64_t tokens;         // tokens that it accepted
  uint64_t micro_batches;  // micro-batches that it accepted
  double loss;             // training loss (mean over them), NaN where not known
} poolscope_step_info;

// Private state, one per translation unit; a tool unites same-named domains. Threads that meet at
// the first annotation all make it, and nobody waits, a signal handler in the middle included: its
// fields are written and read whole.
#define POOLSCOPE_GET_(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define POOLSCOPE_SET_(field, value) __atomic_store_n(&(field), value, __ATOMIC_RELAXED)
struct poolscope_state_ {
  int ready;  // 0 not yet, 1 ready
  nvtxDomainHandle_t domain;
  uint64_t work_schema, transfer_schema, wait_schema, step_schema, fault_schema;
};

static inline uint64_t poolscope_schema_(nvtxDomainHandle_t domain, const char* name,
                                         const char* const* fields, size_t count, size_t string_at,
                                         size_t double_at) {
  nvtxPayloadSchemaEntry_t entries[16];
  nvtxPayloadSchemaAttr_t attr;
  memset(entries, 0, sizeof(entries));
  memset(&attr, 0, sizeof(attr));
  for (size_t i = 0; i < count; ++i) {
    entries[i].type = i == string_at   ? NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE
                      : i == double_at ? NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE
                                       : NVTX_PAYLOAD_ENTRY_TYPE_UINT64;
    entries[i].name = fields[i];
    entries[i].offset = i * 8;
  }
  attr.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                   NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                   NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                   NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
  attr.name = name;
  attr.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  attr.entries = entries;
  attr.numEntries = count;
  attr.payloadStaticSize = count * 8;
  return nvtxPayloadSchemaRegister(domain, &attr);
}

static inline void poolscope_init_(struct poolscope_state_* state) {
  static const char* const transfer[] = {"stage",   "source",          "destination", "sequence",
                                         "version", "applied_version", "raw_bytes",   "wire_bytes",
                                         "step",    "micro_batch",     "codec"};
  static const char* const work[] = {"step", "micro_batch", "version", "scope", "cpu_ns"};
  static const char* const wait[] = {"source", "sequence"};
  static const char* const step[] = {"step", "version", "tokens", "micro_batches", "loss"};
  static const char* const fault[] = {"kind", "source", "destination", "sequence", "bytes"};
  static const char* const categories[] = {
      "",          "work",  "transfer",   "wait_link", "blocked_link", "wait_credit",
      "wait_peer", "input", "other_work", "step",      "discard",      "phase",
      "host",      "fault", "wait_device"};
  nvtxDomainHandle_t domain = nvtxDomainCreateA("poolscope");
  if (domain) {
    // Threads that come here at once register the same content twice, which is harmless.
    POOLSCOPE_SET_(state->transfer_schema,
                   poolscope_schema_(domain, "poolscope.transfer", transfer, 11, 10, SIZE_MAX));
    POOLSCOPE_SET_(state->work_schema,
                   poolscope_schema_(domain, "poolscope.work", work, 5, SIZE_MAX, SIZE_MAX));
    POOLSCOPE_SET_(state->wait_schema,
                   poolscope_schema_(domain, "poolscope.wait", wait, 2, SIZE_MAX, SIZE_MAX));
    POOLSCOPE_SET_(state->fault_schema,
                   poolscope_schema_(domain, "poolscope.fault", fault, 5, SIZE_MAX, SIZE_MAX));
    POOLSCOPE_SET_(state->step_schema,
                   poolscope_schema_(domain, "poolscope.step", step, 5, SIZE_MAX, 4));
    for (uint32_t i = 1; i < sizeof(categories) / sizeof(categories[0]); ++i) {
      nvtxDomainNameCategoryA(domain, i, categories[i]);
    }
  }
  POOLSCOPE_SET_(state->domain, domain);
  __atomic_store_n(&state->ready, 1, __ATOMIC_RELEASE);
}

static inline struct poolscope_state_* poolscope_state(void) {
  static struct poolscope_state_ state;
  if (__builtin_expect(!__atomic_load_n(&state.ready, __ATOMIC_ACQUIRE), 0)) {
    poolscope_init_(&state);
  }
  return &state;
}

// Non-zero when a tool listens. Guard only work that prepares annotations, never the calls.
static inline int poolscope_attached(void) {
  return POOLSCOPE_GET_(poolscope_state()->domain) != NULL;
}

// A registered string for the calls below; keep it, registering is not free.
static inline nvtxStringHandle_t poolscope_name(const char* text) {
  nvtxDomainHandle_t domain = POOLSCOPE_GET_(poolscope_state()->domain);
  return domain ? nvtxDomainRegisterStringA(domain, text) : NULL;
}

static inline void poolscope_define_(uint64_t identifier, int32_t type, const char* text) {
  nvtxDomainHandle_t domain = POOLSCOPE_GET_(poolscope_state()->domain);
  nvtxResourceAttributes_t attr;
  if (!domain) return;
  memset(&attr, 0, sizeof(attr));
  attr.version = NVTX_VERSION;
  attr.size = NVTX_RESOURCE_ATTRIB_STRUCT_SIZE;
  attr.identifierType = type;
  attr.identifier.ullValue = identifier;
  attr.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attr.message.ascii = text;
  nvtxDomainResourceCreate(domain, &attr);
}

// The calling thread does the work of worker `index` (from 0) of `pool`, whose role is compute,
// update, rollout, trainer or other. Recorded as the domain's resource "worker POOL INDEX ROLE".
static inline void poolscope_worker(const char* pool, unsigned index, const char* role) {
  char text[256];
  if (!poolscope_attached()) return;
  snprintf(text, sizeof(text), "worker %s %u %s", pool, index, role);
  poolscope_define_((uint64_t)syscall(SYS_gettid), NVTX_RESOURCE_TYPE_GENERIC_THREAD_NATIVE, text);
  snprintf(text, sizeof(text), "%s/%u", pool, index);
  nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), text);
}

// A link between two pools: resource "link NAME FROM TO CAPACITY LANES". Capacity in messages;
// lanes: how many messages may be on the wire at once (senders that share a wire are one lane).
static inline void poolscope_link(const char* name, const char* from, const char* to,
                                  uint64_t capacity, uint64_t lanes) {
  char text[512];
  if (!poolscope_attached()) return;
  snprintf(text, sizeof(text), "link %s %s %s %llu %llu", name, from, to,
           (unsigned long long)capacity, (unsigned long long)lanes);
  poolscope_define_(0, NVTX_RESOURCE_TYPE_GENERIC_HANDLE, text);
}

// A knob or fact of the run, for the what-if: resource "setting KEY VALUE".
static inline void poolscope_setting(const char* key, const char* value) {
  char text[512];
  if (!poolscope_attached()) return;
  snprintf(text, sizeof(text), "setting %s %s", key, value);
  poolscope_define_(0, NVTX_RESOURCE_TYPE_GENERIC_HANDLE, text);
}

static inline void poolscope_fill_(nvtxEventAttributes_t* attr, uint32_t category,
                                   nvtxStringHandle_t name) {
  memset(attr, 0, sizeof(*attr));
  attr->version = NVTX_VERSION;
  attr->size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attr->category = category;
  attr->messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attr->message.registered = name;
}

// Opens a range on this thread; close it with the matching end below.
static inline void poolscope_begin(uint32_t category, nvtxStringHandle_t name) {
  struct poolscope_state_* state = poolscope_state();
  nvtxEventAttributes_t attr;
  if (!POOLSCOPE_GET_(state->domain)) return;
  poolscope_fill_(&attr, category, name);
  nvtxDomainRangePushEx(POOLSCOPE_GET_(state->domain), &attr);
}

// Closes a range that has nothing to add (input, other work, phase, host, wait on credit or peer).
static inline void poolscope_end(void) {
  struct poolscope_state_* state = poolscope_state();
  if (POOLSCOPE_GET_(state->domain)) nvtxDomainRangePop(POOLSCOPE_GET_(state->domain));
}

static inline void poolscope_end_with_(struct poolscope_state_* state, uint64_t schema,
                                       const void* data, size_t size) {
  nvtxPayloadData_t payload;
  payload.schemaId = schema;
  payload.size = size;
  payload.payload = data;
  nvtxRangePopPayload(POOLSCOPE_GET_(state->domain), &payload, 1);
}

static inline void poolscope_end_work(const poolscope_work* work) {
  struct poolscope_state_* state = poolscope_state();
  if (POOLSCOPE_GET_(state->domain)) {
    poolscope_end_with_(state, POOLSCOPE_GET_(state->work_schema), work, sizeof(*work));
  }
}

// `source` and `sequence` name the message that ended the wait; POOLSCOPE_NO_VALUE where none did.
static inline void poolscope_end_wait(uint64_t source, uint64_t sequence) {
  struct poolscope_state_* state = poolscope_state();
  uint64_t message[2] = {source, sequence};
  if (POOLSCOPE_GET_(state->domain)) {
    poolscope_end_with_(state, POOLSCOPE_GET_(state->wait_schema), message, sizeof(message));
  }
}

static inline void poolscope_end_transfer(const poolscope_transfer* transfer) {
  struct poolscope_state_* state = poolscope_state();
  if (POOLSCOPE_GET_(state->domain)) {
    poolscope_end_with_(state, POOLSCOPE_GET_(state->transfer_schema), transfer, sizeof(*transfer));
  }
}

// The queued stage, which starts on the sender's thread and ends where the wire takes the message.
static inline nvtxRangeId_t poolscope_queue_begin(nvtxStringHandle_t link,
                                                  const poolscope_transfer* transfer) {
  struct poolscope_state_* state = poolscope_state();
  nvtxEventAttributes_t attr;
  nvtxPayloadData_t payload;
  if (!POOLSCOPE_GET_(state->domain)) return 0;
  poolscope_fill_(&attr, POOLSCOPE_TRANSFER, link);
  payload.schemaId = POOLSCOPE_GET_(state->transfer_schema);
  payload.size = sizeof(*transfer);
  payload.payload = transfer;
  attr.payloadType = NVTX_PAYLOAD_TYPE_EXT;
  attr.reserved0 = 1;
  attr.payload.ullValue = (uint64_t)(uintptr_t)&payload;
  return nvtxDomainRangeStartEx(POOLSCOPE_GET_(state->domain), &attr);
}

static inline void poolscope_queue_end(nvtxRangeId_t id) {
  struct poolscope_state_* state = poolscope_state();
  if (POOLSCOPE_GET_(state->domain)) nvtxDomainRangeEnd(POOLSCOPE_GET_(state->domain), id);
}

static inline void poolscope_mark_(uint32_t category, nvtxStringHandle_t name, uint64_t schema,
                                   const void* data, size_t size) {
  struct poolscope_state_* state = poolscope_state();
  nvtxEventAttributes_t attr;
  nvtxPayloadData_t payload;
  poolscope_fill_(&attr, category, name);
  payload.schemaId = schema;
  payload.size = size;
  payload.payload = data;
  attr.payloadType = NVTX_PAYLOAD_TYPE_EXT;
  attr.reserved0 = 1;
  attr.payload.ullValue = (uint64_t)(uintptr_t)&payload;
  nvtxDomainMarkEx(POOLSCOPE_GET_(state->domain), &attr);
}

// One optimizer update was made. Call it once per update, whatever the number of update workers.
static inline void poolscope_step(nvtxStringHandle_t name, const poolscope_step_info* step) {
  struct poolscope_state_* state = poolscope_state();
  if (POOLSCOPE_GET_(state->domain))
    poolscope_mark_(POOLSCOPE_STEP, name, POOLSCOPE_GET_(state->step_schema), step, sizeof(*step));
}

// The message (link, source, sequence) and the work that produced it were thrown away.
static inline void poolscope_discard(nvtxStringHandle_t link, const poolscope_transfer* transfer) {
  struct poolscope_state_* state = poolscope_state();
  if (POOLSCOPE_GET_(state->domain)) {
    poolscope_mark_(POOLSCOPE_DISCARD, link, POOLSCOPE_GET_(state->transfer_schema), transfer,
                    sizeof(*transfer));
  }
}

static inline void poolscope_fault(nvtxStringHandle_t link, const poolscope_fault_info* fault) {
  struct poolscope_state_* state = poolscope_state();
  if (POOLSCOPE_GET_(state->domain)) {
    poolscope_mark_(POOLSCOPE_FAULT, link, POOLSCOPE_GET_(state->fault_schema), fault,
                    sizeof(*fault));
  }
}

// A counter of doubles; 0 when nothing listens. Names: "<link>.depth", "<link>.credits",
// "<pool>.version", "loss", "gradient_norm", "tokens", "optimizer_state_bytes"; "<pool>.occupancy",
// sampled on the worker's own thread: min(capacity, active) / capacity of an engine that serves
// several things at once, by which its work counts as busy. Each process samples the "<link>.depth"
// of its own buffers: they add up.
static inline uint64_t poolscope_counter(const char* name) {
  struct poolscope_state_* state = poolscope_state();
  nvtxCounterAttr_t attr;
  if (!POOLSCOPE_GET_(state->domain)) return 0;
  memset(&attr, 0, sizeof(attr));
  attr.structSize = sizeof(attr);
  attr.schemaId = NVTX_PAYLOAD_ENTRY_TYPE_FLOAT64;
  attr.name = name;
  attr.scopeId = NVTX_SCOPE_CURRENT_VM;
  return nvtxCounterRegister(POOLSCOPE_GET_(state->domain), &attr);
}

static inline void poolscope_sample(uint64_t counter, double value) {
  struct poolscope_state_* state = poolscope_state();
  if (POOLSCOPE_GET_(state->domain))
    nvtxCounterSampleFloat64(POOLSCOPE_GET_(state->domain), counter, value);
}
