// nvtx_probe SCENARIO...: real NVTX calls for tests of the agent, from C, over annotate.h alone.
// Prints "done" at the end of each scenario that returns.

#include <dlfcn.h>
#include <poolscope/annotate.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <wchar.h>

static nvtxEventAttributes_t Event(const char* text, uint32_t category) {
  nvtxEventAttributes_t attr;
  memset(&attr, 0, sizeof(attr));
  attr.version = NVTX_VERSION;
  attr.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attr.category = category;
  attr.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attr.message.ascii = text;
  return attr;
}

static void Core(void) {
  nvtxEventAttributes_t attr = Event("push ex", 7);
  nvtxNameCategoryA(7, "seven");
  nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), "probe main");
  attr.payloadType = NVTX_PAYLOAD_TYPE_INT32;
  attr.payload.iValue = -5;
  printf("level %d\n", nvtxRangePushA("push a"));
  printf("level %d\n", nvtxRangePushEx(&attr));
  printf("level %d\n", nvtxRangePushW(L"push w \u00e9 \u4e2d \U0001f600"));
  printf("level %d\n", nvtxRangePop());
  printf("level %d\n", nvtxRangePop());
  printf("level %d\n", nvtxRangePop());
  nvtxMarkA("mark a");
  nvtxMarkW(L"mark w");
  attr = Event("mark ex", 0);
  attr.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
  attr.payload.dValue = 2.5;
  nvtxMarkEx(&attr);
  nvtxRangeEnd(nvtxRangeStartA("start a"));
  nvtxRangeEnd(nvtxRangeStartW(L"start w"));
  attr = Event("start ex", 3);
  nvtxRangeEnd(nvtxRangeStartEx(&attr));
}

static void Core2(void) {
  nvtxDomainHandle_t one = nvtxDomainCreateA("domain one");
  nvtxDomainHandle_t two = nvtxDomainCreateW(L"domain two");
  nvtxDomainHandle_t again = nvtxDomainCreateA("domain one");
  nvtxEventAttributes_t attr = Event("", 0);
  printf("same domain %d\n", one == again && one != two);
  attr.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attr.message.registered = nvtxDomainRegisterStringA(one, "registered");
  nvtxDomainNameCategoryA(one, 1, "work of one");
  nvtxDomainRangePushEx(one, &attr);
  nvtxDomainRangePop(one);
  attr.message.registered = nvtxDomainRegisterStringW(two, L"registered wide");
  nvtxDomainMarkEx(two, &attr);
  nvtxDomainRangeEnd(one, nvtxDomainRangeStartEx(one, &attr));
  nvtxResourceAttributes_t resource;
  memset(&resource, 0, sizeof(resource));
  resource.version = NVTX_VERSION;
  resource.size = NVTX_RESOURCE_ATTRIB_STRUCT_SIZE;
  resource.identifierType = NVTX_RESOURCE_TYPE_GENERIC_POINTER;
  resource.identifier.ullValue = 0x1234;
  resource.messageType = NVTX_MESSAGE_TYPE_ASCII;
  resource.message.ascii = "a resource";
  nvtxDomainResourceCreate(two, &resource);
}

static void Annotate(void) {
  poolscope_work work = {3, 1, 9, POOLSCOPE_PER_MICRO_BATCH, POOLSCOPE_NO_VALUE};
  poolscope_transfer transfer = {POOLSCOPE_WIRE, 2, 4, 77, 5, 6, 1000, 500, 3, 1, NULL};
  poolscope_step_info step = {3, 4, 2048, 8, 1.25};
  nvtxRangeId_t queued;
  uint64_t depth;
  poolscope_worker("compute", 2, "compute");
  poolscope_link("gradients", "compute", "update", 4, 1);
  poolscope_setting("mode", "sync");
  transfer.codec = poolscope_name("bf16");
  poolscope_begin(POOLSCOPE_WORK, poolscope_name("forward"));
  poolscope_end_work(&work);
  poolscope_begin(POOLSCOPE_WAIT_LINK, poolscope_name("weights"));
  poolscope_end_wait(1, 12);
  poolscope_begin(POOLSCOPE_TRANSFER, poolscope_name("gradients"));
  poolscope_end_transfer(&transfer);
  transfer.stage = POOLSCOPE_QUEUED;
  transfer.codec = NULL;
  queued = poolscope_queue_begin(poolscope_name("queued link"), &transfer);
  poolscope_queue_end(queued);
  poolscope_step(poolscope_name("step"), &step);
  poolscope_discard(poolscope_name("discarded"), &transfer);
  depth = poolscope_counter("gradients.depth");
  poolscope_sample(depth, 3.5);
}

struct Mixed {
  int8_t small;
  uint16_t medium;
  int32_t negative;
  float real;
  const char* text;
  char inplace[6];
  uint64_t wide;
};

static void Payload(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("payload domain");
  nvtxPayloadSchemaEntry_t entries[7];
  nvtxPayloadSchemaAttr_t attr;
  memset(entries, 0, sizeof(entries));
  memset(&attr, 0, sizeof(attr));
  entries[0].type = NVTX_PAYLOAD_ENTRY_TYPE_INT8;
  entries[0].name = "small";
  entries[1].type = NVTX_PAYLOAD_ENTRY_TYPE_UINT16;
  entries[1].name = "medium";
  entries[2].type = NVTX_PAYLOAD_ENTRY_TYPE_INT;
  entries[2].name = "negative";
  entries[3].type = NVTX_PAYLOAD_ENTRY_TYPE_FLOAT;
  entries[3].name = "real";
  entries[4].type = NVTX_PAYLOAD_ENTRY_TYPE_CSTRING;
  entries[4].name = "text";
  entries[4].flags = NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE;
  entries[5].type = NVTX_PAYLOAD_ENTRY_TYPE_CSTRING;
  entries[5].arrayOrUnionDetail = 6;
  entries[5].name = "inplace";
  entries[6].type = NVTX_PAYLOAD_ENTRY_TYPE_UINT64;
  entries[6].name = "wide";
  attr.fieldMask =
      NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
      NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
      NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
  attr.name = "mixed";
  attr.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  attr.entries = entries;
  attr.numEntries = 7;
  attr.payloadStaticSize = sizeof(struct Mixed);
  attr.schemaId = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 5;
  const uint64_t chosen = nvtxPayloadSchemaRegister(domain, &attr);
  printf("schema id kept %d\n", chosen == attr.schemaId);
  const struct Mixed mixed = {-3, 60000, -70000, 0.5f, "named by payload", "sixchr", 1ull << 63};
  nvtxPayloadData_t data = {chosen, sizeof(mixed), &mixed};
  nvtxRangePushPayload(domain, &data, 1);
  nvtxRangePopPayload(domain, NULL, 0);
  const nvtxEventAttributes_t first = Event("first name", 0);
  nvtxDomainRangePushEx(domain, &first);
  struct Mixed last = mixed;
  last.text = "last name";
  const nvtxPayloadData_t renamed = {chosen, sizeof(last), &last};
  nvtxRangePopPayload(domain, &renamed, 1);
  nvtxRangeEndPayload(domain, nvtxDomainRangeStartEx(domain, &first), &renamed, 1);
  nvtxMarkPayload(domain, &data, 1);
  nvtxRangeEndPayload(domain, nvtxRangeStartPayload(domain, &data, 1), NULL, 0);

  // The same name with another layout, and one that cannot be recorded whole.
  attr.fieldMask &= ~(uint64_t)NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
  attr.numEntries = 1;
  attr.payloadStaticSize = 1;
  const uint64_t other = nvtxPayloadSchemaRegister(domain, &attr);
  const nvtxPayloadData_t two[2] = {{other, 1, &mixed}, {chosen, sizeof(mixed), &mixed}};
  nvtxEventAttributes_t event = Event("two payloads", 0);
  event.payloadType = NVTX_PAYLOAD_TYPE_EXT;
  event.reserved0 = 2;
  event.payload.ullValue = (uint64_t)(uintptr_t)two;
  nvtxDomainMarkEx(domain, &event);
  const nvtxPayloadData_t bad = {12345, 8, &mixed};
  nvtxMarkPayload(domain, &bad, 1);
}

static void Counters(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("counter domain");
  nvtxCounterAttr_t attr;
  memset(&attr, 0, sizeof(attr));
  attr.structSize = sizeof(attr);
  attr.schemaId = NVTX_PAYLOAD_ENTRY_TYPE_INT64;
  attr.name = "integer";
  const uint64_t integer = nvtxCounterRegister(domain, &attr);
  nvtxCounterSampleInt64(domain, integer, -42);
  nvtxCounterSampleNoValue(domain, integer, NVTX_COUNTER_SAMPLE_ZERO);
  nvtxCounterSampleNoValue(domain, integer, NVTX_COUNTER_SAMPLE_UNAVAILABLE);
  attr.schemaId = NVTX_PAYLOAD_ENTRY_TYPE_FLOAT;
  attr.name = "single";
  attr.counterId = NVTX_COUNTER_ID_STATIC_START + 1;
  const uint64_t single = nvtxCounterRegister(domain, &attr);
  const float value = 0.25f;
  nvtxCounterSample(domain, single, &value, sizeof(value));
  nvtxCounterSampleFloat64(domain, single, 8.0);
}

static void Names(void) {
  char one[64] = "twice the same text";
  char two[64] = "twice the same text";
  char buffer[64];
  char* edge = NULL;
  nvtxRangePushA(one);
  nvtxRangePop();
  nvtxRangePushA(two);
  nvtxRangePop();
  for (int i = 0; i < 2; ++i) {
    for (int k = 0; k < 3; ++k) {
      snprintf(buffer, sizeof(buffer), "rewritten %d", k);
      nvtxRangePushA(buffer);
      nvtxRangePop();
      snprintf(buffer, sizeof(buffer), "rewritten, and longer than thirty-two bytes %d", k);
      nvtxRangePushA(buffer);
      nvtxRangePop();
    }
  }
  // A text that ends with its page, the next one being nobody's.
  if (posix_memalign((void**)&edge, 4096, 8192) == 0) {
    char* page_end = edge + 4096;
    memcpy(page_end - 5, "edge", 5);
    nvtxMarkA(page_end - 5);
  }
  char* huge = malloc(10000);
  memset(huge, 'x', 9999);
  huge[9999] = '\0';
  nvtxMarkA(huge);
  nvtxMarkA("");
  nvtxMarkA(NULL);
  free(huge);
  free(edge);
}

static void Deep(void) {
  for (int i = 0; i < 100; ++i) nvtxRangePushA("deep");
  for (int i = 0; i < 100; ++i) nvtxRangePop();
  nvtxRangePushA("after");
  nvtxRangePop();
  nvtxRangePop();  // one too many
}

static void Interleaved(void) {
  nvtxDomainHandle_t one = nvtxDomainCreateA("one");
  nvtxDomainHandle_t two = nvtxDomainCreateA("two");
  nvtxEventAttributes_t a = Event("a", 0), b = Event("b", 0), c = Event("c", 0);
  nvtxDomainRangePushEx(one, &a);
  nvtxDomainRangePushEx(two, &b);
  printf("level %d\n", nvtxDomainRangePushEx(one, &c));
  nvtxDomainRangePop(two);
  nvtxDomainRangePop(one);
  nvtxDomainRangePop(one);
}

static void* EndIt(void* id) {
  nvtxRangeEnd(*(nvtxRangeId_t*)id);
  return NULL;
}

static void AcrossThreads(void) {
  nvtxRangeId_t id = nvtxRangeStartA("crossing");
  pthread_t thread;
  pthread_create(&thread, NULL, EndIt, &id);
  pthread_join(thread, NULL);
  nvtxRangeEnd(id);  // not open any more
}

static void* OneRange(void* unused) {
  (void)unused;
  nvtxRangePushA("short-lived");
  nvtxRangePop();
  return NULL;
}

static void ManyThreads(void) {
  for (int i = 0; i < 10000; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, OneRange, NULL);
    pthread_join(thread, NULL);
  }
}

static void Fork(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("forked domain");
  nvtxEventAttributes_t attr = Event("", 0);
  attr.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attr.message.registered = nvtxDomainRegisterStringA(domain, "from the parent");
  nvtxRangePushA("open in the parent");
  const nvtxRangeId_t id = nvtxRangeStartA("started in the parent");
  for (int child = 0; child < 3; ++child) {
    if (fork() != 0) continue;
    for (int i = 0; i < 1000 * (child + 1); ++i) {
      nvtxDomainRangePushEx(domain, &attr);
      nvtxDomainRangePop(domain);
    }
    nvtxRangePushA("new in the child");
    nvtxRangePop();
    nvtxRangePop();
    nvtxRangeEnd(id);
    _exit(0);
  }
  while (wait(NULL) > 0) {
  }
  nvtxRangeEnd(id);
  nvtxRangePop();
}

static void Killed(void) {
  nvtxRangePushA("outer");
  nvtxRangePushA("inner");
  nvtxRangeStartA("across");
  nvtxMarkA("before the end");
  raise(SIGKILL);
}

static void Marks(int count) {
  for (int i = 0; i < count; ++i) {
    nvtxEventAttributes_t attr = Event("mark", 0);
    attr.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    attr.payload.ullValue = (uint64_t)i;
    nvtxMarkEx(&attr);
  }
}

// Marks on each line of input, the count being the line; for tests that look in between.
static void Served(void) {
  char line[64];
  setvbuf(stdout, NULL, _IOLBF, 0);
  while (fgets(line, sizeof(line), stdin) != NULL) {
    Marks(atoi(line));
    printf("ok\n");
  }
}

static void CloseAll(void) {
  nvtxMarkA("before");
  for (int fd = 3; fd < 256; ++fd) close(fd);
  FILE* own = fopen("/proc/self/status", "r");
  pthread_t thread;
  pthread_create(&thread, NULL, OneRange, NULL);
  pthread_join(thread, NULL);
  if (own != NULL) fclose(own);
}

// A library with an NVTX of its own, as every shared object has.
static void TwoLibraries(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("shared domain");
  nvtxEventAttributes_t attr = Event("from the program", 0);
  nvtxDomainRangePushEx(domain, &attr);
  void* library = dlopen(NVTX_PROBE_PLUGIN, RTLD_NOW);
  void (*record)(void) = library ? (void (*)(void))dlsym(library, "nvtx_plugin_record") : NULL;
  if (record == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  record();
  dlclose(library);
  nvtxDomainRangePop(domain);
}

static volatile sig_atomic_t handled;

static void Handler(int signal) {
  (void)signal;
  char name[32];
  ++handled;
  snprintf(name, sizeof(name), "handler %d", (int)handled % 500);
  nvtxRangePushA(name);
  nvtxRangePop();
}

// Ranges in a signal handler that comes upon the thread anywhere, registering names included.
static void Signals(void) {
  const struct itimerval often = {{0, 50}, {0, 50}};
  const struct itimerval never = {{0, 0}, {0, 0}};
  char name[32];
  int made = 0;
  signal(SIGALRM, Handler);
  nvtxMarkA("first");
  setitimer(ITIMER_REAL, &often, NULL);
  while (handled < 2000) {
    snprintf(name, sizeof(name), "main %d", made % 3000);
    nvtxDomainRegisterStringA(NULL, name);
    nvtxRangePushA(name);
    nvtxRangePop();
    ++made;
  }
  setitimer(ITIMER_REAL, &never, NULL);
  printf("%d %d\n", made, (int)handled);
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const char* scenario = argv[i];
    if (strcmp(scenario, "core") == 0) Core();
    if (strcmp(scenario, "core2") == 0) Core2();
    if (strcmp(scenario, "annotate") == 0) Annotate();
    if (strcmp(scenario, "payload") == 0) Payload();
    if (strcmp(scenario, "counters") == 0) Counters();
    if (strcmp(scenario, "names") == 0) Names();
    if (strcmp(scenario, "deep") == 0) Deep();
    if (strcmp(scenario, "interleaved") == 0) Interleaved();
    if (strcmp(scenario, "across") == 0) AcrossThreads();
    if (strcmp(scenario, "many_threads") == 0) ManyThreads();
    if (strcmp(scenario, "fork") == 0) Fork();
    if (strcmp(scenario, "killed") == 0) Killed();
    if (strcmp(scenario, "served") == 0) Served();
    if (strcmp(scenario, "close_all") == 0) CloseAll();
    if (strcmp(scenario, "two_libraries") == 0) TwoLibraries();
    if (strcmp(scenario, "signals") == 0) Signals();
    if (strncmp(scenario, "marks=", 6) == 0) Marks(atoi(scenario + 6));
    if (strcmp(scenario, "quick_exit") == 0) quick_exit(0);
    if (strcmp(scenario, "_exit") == 0) _exit(0);
    if (strcmp(scenario, "exec") == 0) {
      nvtxMarkA("before exec");
      execl(argv[0], argv[0], "marks=1", (char*)NULL);
    }
    printf("done %s\n", scenario);
  }
  return 0;
}
