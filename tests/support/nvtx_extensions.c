// nvtx_extensions SCENARIO...: real calls of NVTX's extensions and of its less used modules, for
// tests of the agent.

#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <nvtx3/nvToolsExtSemanticsTime.h>
#include <nvtx3/nvToolsExtSync.h>
#include <poolscope/annotate.h>
#include <stdlib.h>
#include <time.h>

static int64_t Now(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void Colors(void) {
  nvtxEventAttributes_t attr;
  memset(&attr, 0, sizeof(attr));
  attr.version = NVTX_VERSION;
  attr.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attr.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attr.message.ascii = "plain";
  nvtxMarkEx(&attr);
  attr.colorType = NVTX_COLOR_ARGB;
  attr.color = 0xff00ff80;
  attr.message.ascii = "green";
  nvtxRangePushEx(&attr);
  nvtxRangePop();
  attr.color = 0xffff0000;
  attr.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  attr.payload.ullValue = 7;
  attr.message.ascii = "red with a value";
  nvtxRangeEnd(nvtxRangeStartEx(&attr));
}

static void Sync(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("locks");
  nvtxSyncUserAttributes_t attr;
  memset(&attr, 0, sizeof(attr));
  attr.version = NVTX_VERSION;
  attr.size = NVTX_SYNCUSER_ATTRIB_STRUCT_SIZE;
  attr.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attr.message.ascii = "queue lock";
  nvtxSyncUser_t first = nvtxDomainSyncUserCreate(domain, &attr);
  nvtxSyncUser_t second = nvtxDomainSyncUserCreate(domain, &attr);
  nvtxRangePushA("around");
  nvtxDomainSyncUserAcquireStart(first);
  nvtxDomainSyncUserAcquireFailed(first);
  nvtxDomainSyncUserAcquireStart(second);
  nvtxDomainSyncUserAcquireSuccess(second);
  nvtxDomainSyncUserReleasing(second);
  nvtxDomainSyncUserAcquireSuccess(second);  // never started: must not end "around"
  nvtxRangePop();
  nvtxDomainSyncUserDestroy(first);
  nvtxDomainSyncUserDestroy(second);
}

static uint64_t Register(nvtxDomainHandle_t domain, const char* name,
                         nvtxPayloadSchemaEntry_t* entries, size_t count, size_t bytes) {
  nvtxPayloadSchemaAttr_t attr;
  memset(&attr, 0, sizeof(attr));
  attr.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                   NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                   NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                   NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
  attr.name = name;
  attr.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  attr.entries = entries;
  attr.numEntries = count;
  attr.payloadStaticSize = bytes;
  return nvtxPayloadSchemaRegister(domain, &attr);
}

struct Past {
  int64_t begin;
  int64_t end;
  const char* text;
  uint32_t category;
  uint32_t bytes;
};

static uint64_t RegisterPast(nvtxDomainHandle_t domain, const char* name, uint64_t clock,
                             nvtxSemanticsTime_t* time) {
  nvtxPayloadSchemaEntry_t entries[5];
  memset(entries, 0, sizeof(entries));
  memset(time, 0, sizeof(*time));
  time->header.structSize = sizeof(*time);
  time->header.semanticId = NVTX_SEMANTIC_ID_TIME_V1;
  time->timeDomainId = clock;
  entries[0].type = NVTX_PAYLOAD_ENTRY_TYPE_INT64;
  entries[0].flags = NVTX_PAYLOAD_ENTRY_FLAG_TIMESTAMP | NVTX_PAYLOAD_ENTRY_FLAG_RANGE_BEGIN;
  entries[0].name = "begin";
  entries[0].semantics = &time->header;
  entries[1].type = NVTX_PAYLOAD_ENTRY_TYPE_INT64;
  entries[1].flags = NVTX_PAYLOAD_ENTRY_FLAG_TIMESTAMP | NVTX_PAYLOAD_ENTRY_FLAG_RANGE_END;
  entries[1].name = "end";
  entries[2].type = NVTX_PAYLOAD_ENTRY_TYPE_CSTRING;
  entries[2].flags = NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE;
  entries[2].name = "text";
  entries[3].type = NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY;
  entries[3].name = "category";
  entries[4].type = NVTX_PAYLOAD_ENTRY_TYPE_UINT32;
  entries[4].name = "bytes";
  return Register(domain, name, entries, 5, sizeof(struct Past));
}

static void Submit(nvtxDomainHandle_t domain, uint64_t schema, const struct Past* past) {
  const nvtxPayloadData_t data = {schema, sizeof(*past), past};
  nvtxEventSubmit(domain, &data, 1);
}

// Prints the CLOCK_MONOTONIC time that each event is to come out with.
static void Deferred(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("past");
  nvtxSemanticsTime_t time;
  const int64_t now = Now(CLOCK_MONOTONIC);
  const struct Past monotonic = {now - 5000000, now - 4000000, "by the monotonic clock", 9, 77};
  Submit(domain,
         RegisterPast(domain, "monotonic", NVTX_TIMESTAMP_TYPE_CPU_CLOCK_GETTIME_MONOTONIC, &time),
         &monotonic);
  printf("%ld\n", (long)monotonic.begin);

  const int64_t wall = Now(CLOCK_REALTIME);
  const struct Past real = {wall - 3000000, wall - 2000000, "by the wall clock", 0, 1};
  Submit(domain,
         RegisterPast(domain, "real", NVTX_TIMESTAMP_TYPE_CPU_CLOCK_GETTIME_REALTIME, &time),
         &real);
  printf("%ld\n", (long)(Now(CLOCK_MONOTONIC) - (Now(CLOCK_REALTIME) - real.begin)));

  // A clock of 1 MHz that showed 1000 now.
  nvtxTimeDomainAttr_t attr;
  memset(&attr, 0, sizeof(attr));
  attr.timeDomainId = NVTX_TIME_DOMAIN_ID_STATIC_START + 1;
  attr.timerResolution = 1000000;
  const uint64_t megahertz = nvtxTimeDomainRegister(domain, &attr);
  nvtxTimeSyncPoint(domain, megahertz, NVTX_TIMESTAMP_TYPE_CPU_CLOCK_GETTIME_MONOTONIC, 1000, now);
  const struct Past device = {500, 600, "by a clock of its own", 0, 2};
  Submit(domain, RegisterPast(domain, "device", megahertz, &time), &device);
  printf("%ld\n", (long)(now - 500000));

  // One whose rate comes from two pairs.
  const nvtxSyncPoint_t points[2] = {{100, now - 2000000}, {300, now - 1000000}};
  nvtxTimeSyncPointTable(domain, NVTX_TIME_DOMAIN_ID_STATIC_START + 2,
                         NVTX_TIMESTAMP_TYPE_CPU_CLOCK_GETTIME_MONOTONIC, points, 2);
  const struct Past paired = {200, 250, "by a clock tied twice", 0, 3};
  Submit(domain, RegisterPast(domain, "paired", NVTX_TIME_DOMAIN_ID_STATIC_START + 2, &time),
         &paired);
  printf("%ld\n", (long)(now - 1500000));

  nvtxTimestampConversionFactor(domain, NVTX_TIME_DOMAIN_ID_STATIC_START + 3,
                                NVTX_TIMESTAMP_TYPE_CPU_CLOCK_GETTIME_MONOTONIC, 10.0, 0,
                                now - 9000000);
  const struct Past scaled = {100000, 200000, "by a clock with a factor", 0, 4};
  Submit(domain, RegisterPast(domain, "scaled", NVTX_TIME_DOMAIN_ID_STATIC_START + 3, &time),
         &scaled);
  printf("%ld\n", (long)(now - 8000000));

  const int64_t before = Now(CLOCK_MONOTONIC);
  const int64_t tool = nvtxTimestampGet();
  const struct Past own = {tool, nvtxTimestampGet(), "by the agent's clock", 0, 5};
  Submit(domain, RegisterPast(domain, "own", NVTX_TIMESTAMP_TYPE_TOOL_PROVIDED, &time), &own);
  printf("%ld\n", (long)before);

  Submit(domain, RegisterPast(domain, "gpu", NVTX_TIMESTAMP_TYPE_GPU_GLOBALTIMER, &time), &own);
}

static void EventBatch(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("past");
  nvtxSemanticsTime_t time;
  nvtxScopeAttr_t scope;
  memset(&scope, 0, sizeof(scope));
  scope.structSize = sizeof(scope);
  scope.path = "GPU[CUDAID:1]";
  const int64_t now = Now(CLOCK_MONOTONIC);
  const struct Past events[3] = {{now - 300, now - 200, "first", 0, 1},
                                 {now - 200, now - 100, "second", 0, 2},
                                 {now - 100, now, "third", 0, 3}};
  nvtxEventBatch_t batch;
  memset(&batch, 0, sizeof(batch));
  batch.eventSchemaId =
      RegisterPast(domain, "batch", NVTX_TIMESTAMP_TYPE_CPU_CLOCK_GETTIME_MONOTONIC, &time);
  batch.size = sizeof(events);
  batch.events = events;
  batch.scope = nvtxScopeRegister(domain, &scope);
  nvtxEventBatchSubmit(domain, &batch);
  printf("%ld\n", (long)events[0].begin);
}

static void CounterBatch(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("counter domain");
  nvtxSemanticsTime_t time;
  nvtxCounterAttr_t attr;
  nvtxScopeAttr_t scope;
  nvtxCounterBatch_t batch;
  memset(&time, 0, sizeof(time));
  memset(&attr, 0, sizeof(attr));
  memset(&scope, 0, sizeof(scope));
  memset(&batch, 0, sizeof(batch));
  time.header.structSize = sizeof(time);
  time.header.semanticId = NVTX_SEMANTIC_ID_TIME_V1;
  time.timeDomainId = NVTX_TIMESTAMP_TYPE_CPU_CLOCK_GETTIME_MONOTONIC;
  scope.structSize = sizeof(scope);
  scope.path = "node";
  scope.scopeId = NVTX_SCOPE_ID_STATIC_START + 4;
  const uint64_t node = nvtxScopeRegister(domain, &scope);
  scope.path = "GPU[CUDAID:0]";
  scope.parentScope = node;
  scope.scopeId = NVTX_SCOPE_NONE;
  attr.structSize = sizeof(attr);
  attr.schemaId = NVTX_PAYLOAD_ENTRY_TYPE_UINT32;
  attr.name = "clock";
  attr.scopeId = nvtxScopeRegister(domain, &scope);
  attr.semantics = &time.header;
  batch.counterId = nvtxCounterRegister(domain, &attr);
  const uint32_t values[3] = {10, 20, 30};
  const int64_t now = Now(CLOCK_MONOTONIC);
  const int64_t times[3] = {now - 3000, now - 2000, now - 1000};
  batch.counters = values;
  batch.countersSize = sizeof(values);
  batch.timestamps = times;
  batch.timestampsSize = sizeof(times);
  nvtxCounterBatchSubmit(domain, &batch);  // a time for each

  const int64_t from[2] = {now - 900, 100};
  batch.timestamps = from;
  batch.timestampsSize = sizeof(from);
  nvtxCounterBatchSubmit(domain, &batch);  // a first time and an interval
  const int64_t until[2] = {now, 100};
  batch.timestamps = until;
  batch.flags = (uint64_t)2 << 32;
  nvtxCounterBatchSubmit(domain, &batch);  // a last time and an interval
  printf("%ld\n", (long)now);

  batch.timestamps = NULL;
  batch.timestampsSize = 0;
  batch.flags = 0;
  nvtxCounterBatchSubmit(domain, &batch);  // no time: now

  // A group that carries its time.
  struct Group {
    int64_t at;
    float load;
    uint16_t queue;
  };
  nvtxPayloadSchemaEntry_t entries[3];
  memset(entries, 0, sizeof(entries));
  entries[0].type = NVTX_PAYLOAD_ENTRY_TYPE_INT64;
  entries[0].flags = NVTX_PAYLOAD_ENTRY_FLAG_TIMESTAMP;
  entries[0].name = "at";
  entries[1].type = NVTX_PAYLOAD_ENTRY_TYPE_FLOAT;
  entries[1].name = "load";
  entries[2].type = NVTX_PAYLOAD_ENTRY_TYPE_UINT16;
  entries[2].name = "queue";
  attr.schemaId = Register(domain, "group", entries, 3, sizeof(struct Group));
  attr.name = "engine";
  attr.scopeId = NVTX_SCOPE_NONE;
  const struct Group group[2] = {{now - 50, 0.5f, 4}, {now - 25, 0.75f, 5}};
  batch.counterId = nvtxCounterRegister(domain, &attr);
  batch.counters = group;
  batch.countersSize = sizeof(group);
  nvtxCounterBatchSubmit(domain, &batch);
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const char* scenario = argv[i];
    if (strcmp(scenario, "colors") == 0) Colors();
    if (strcmp(scenario, "sync") == 0) Sync();
    if (strcmp(scenario, "deferred") == 0) Deferred();
    if (strcmp(scenario, "event_batch") == 0) EventBatch();
    if (strcmp(scenario, "counter_batch") == 0) CounterBatch();
  }
  return 0;
}
