// nvtx_payloads: one mark for each shape that an NVTX payload can have, for tests of the agent.

#include <nvtx3/nvToolsExtPayload.h>
#include <poolscope/annotate.h>
#include <stddef.h>
#include <wchar.h>

#define ENTRIES(array) array, sizeof(array) / sizeof(array[0])

static nvtxDomainHandle_t domain;

static uint64_t Register(const char* name, uint64_t type, uint64_t flags, size_t bytes,
                         const nvtxPayloadSchemaEntry_t* entries, size_t count, uint64_t id) {
  nvtxPayloadSchemaAttr_t attr;
  memset(&attr, 0, sizeof(attr));
  attr.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                   NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_FLAGS | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                   NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES;
  if (bytes != 0) attr.fieldMask |= NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
  if (id != 0) attr.fieldMask |= NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
  attr.name = name;
  attr.type = type;
  attr.flags = flags;
  attr.entries = entries;
  attr.numEntries = count;
  attr.payloadStaticSize = bytes;
  attr.schemaId = id;
  return nvtxPayloadSchemaRegister(domain, &attr);
}

static nvtxPayloadSchemaEntry_t Entry(const char* name, uint64_t type, uint64_t flags,
                                      uint64_t detail) {
  nvtxPayloadSchemaEntry_t entry;
  memset(&entry, 0, sizeof(entry));
  entry.name = name;
  entry.type = type;
  entry.flags = flags;
  entry.arrayOrUnionDetail = detail;
  return entry;
}

static nvtxPayloadSchemaEntry_t EntryAt(const char* name, uint64_t type, uint64_t offset) {
  nvtxPayloadSchemaEntry_t entry = Entry(name, type, 0, 0);
  entry.offset = offset;
  return entry;
}

static void Mark(const char* name, const nvtxPayloadData_t* payloads, size_t count) {
  nvtxEventAttributes_t attr;
  memset(&attr, 0, sizeof(attr));
  attr.version = NVTX_VERSION;
  attr.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attr.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attr.message.ascii = name;
  attr.payloadType = NVTX_PAYLOAD_TYPE_EXT;
  attr.reserved0 = (int32_t)count;
  attr.payload.ullValue = (uint64_t)(uintptr_t)payloads;
  nvtxDomainMarkEx(domain, &attr);
}

static void MarkOne(const char* name, uint64_t schema, const void* payload, size_t bytes) {
  const nvtxPayloadData_t data = {schema, bytes, payload};
  Mark(name, &data, 1);
}

// Arrays in a structure, of it, and behind addresses.
static void Arrays(void) {
  struct Static {
    uint32_t length;
    int16_t fixed[3];
    const double* values;
    const uint16_t* shape;
    uint64_t dimensions[2];
  };
  const nvtxPayloadSchemaEntry_t entries[] = {
      Entry("length", NVTX_PAYLOAD_ENTRY_TYPE_UINT32, 0, 0),
      Entry("fixed", NVTX_PAYLOAD_ENTRY_TYPE_INT16, NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE, 3),
      Entry("values", NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE,
            NVTX_PAYLOAD_ENTRY_FLAG_POINTER | NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX |
                NVTX_PAYLOAD_ENTRY_FLAG_DEEP_COPY,
            0),
      Entry("shape", NVTX_PAYLOAD_ENTRY_TYPE_UINT16,
            NVTX_PAYLOAD_ENTRY_FLAG_POINTER | NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED |
                NVTX_PAYLOAD_ENTRY_FLAG_DEEP_COPY,
            0),
      Entry("dimensions", NVTX_PAYLOAD_ENTRY_TYPE_UINT64, NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE,
            2)};
  const double values[] = {0.5, -1.5};
  const uint16_t shape[] = {7, 8, 9, 0};
  const struct Static whole = {2, {-1, 2, -3}, values, shape, {4, 5}};
  MarkOne(
      "arrays",
      Register("static", NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, 0, sizeof(whole), ENTRIES(entries), 0),
      &whole, sizeof(whole));

  // A matrix whose dimensions are an array before it.
  struct Matrix {
    uint32_t dimensions[2];
    const uint8_t* cells;
  };
  const nvtxPayloadSchemaEntry_t matrix_entries[] = {
      Entry("dimensions", NVTX_PAYLOAD_ENTRY_TYPE_UINT32, NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE,
            2),
      Entry("cells", NVTX_PAYLOAD_ENTRY_TYPE_UINT8,
            NVTX_PAYLOAD_ENTRY_FLAG_POINTER | NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX, 0)};
  const uint8_t cells[] = {1, 2, 3, 4, 5, 6};
  const struct Matrix matrix = {{2, 3}, cells};
  MarkOne("matrix",
          Register("matrix", NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, NVTX_PAYLOAD_SCHEMA_FLAG_DEEP_COPY,
                   sizeof(matrix), ENTRIES(matrix_entries), 0),
          &matrix, sizeof(matrix));

  struct Point {
    float x;
    uint16_t y;
  };
  const nvtxPayloadSchemaEntry_t point_entries[] = {
      Entry("x", NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, 0, 0),
      Entry("y", NVTX_PAYLOAD_ENTRY_TYPE_UINT16, 0, 0)};
  const uint64_t point = Register("point", NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, 0, sizeof(struct Point),
                                  ENTRIES(point_entries), 0);
  const nvtxPayloadSchemaEntry_t line_entries[] = {
      Entry("points", point, NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE, 2),
      Entry("middle", point, 0, 0)};
  const struct Point line[3] = {{1, 2}, {3, 4}, {2, 3}};
  MarkOne(
      "structures",
      Register("line", NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, 0, sizeof(line), ENTRIES(line_entries), 0),
      line, sizeof(line));

  uint16_t many[100];
  for (int i = 0; i < 100; ++i) many[i] = (uint16_t)i;
  const nvtxPayloadSchemaEntry_t many_entries[] = {
      Entry("many", NVTX_PAYLOAD_ENTRY_TYPE_UINT16, NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE, 100)};
  MarkOne(
      "too many",
      Register("many", NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, 0, sizeof(many), ENTRIES(many_entries), 0),
      many, sizeof(many));
}

static void Dynamic(void) {
  struct {
    uint16_t length;
    double values[2];
    char text[6];
    uint32_t after;
  } payload = {2, {1.25, 2.5}, "hello", 77};
  const nvtxPayloadSchemaEntry_t entries[] = {
      Entry("length", NVTX_PAYLOAD_ENTRY_TYPE_UINT16, 0, 0),
      Entry("values", NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX,
            0),
      Entry("text", NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED,
            0),
      Entry("after", NVTX_PAYLOAD_ENTRY_TYPE_UINT32, 0, 0)};
  const uint64_t schema =
      Register("dynamic", NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC, 0, 0, ENTRIES(entries), 0);
  MarkOne("dynamic", schema, &payload, sizeof(payload));
  payload.length = 60000;  // more than there is
  MarkOne("dynamic that lies", schema, &payload, sizeof(payload));
}

static void Unions(void) {
  struct Chosen {
    int32_t kind;
    union {
      int64_t whole;
      double real;
    } value;
  };
  const nvtxPayloadSchemaEntry_t members[] = {EntryAt("whole", NVTX_PAYLOAD_ENTRY_TYPE_INT64, 0),
                                              EntryAt("real", NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, 0)};
  const uint64_t value =
      Register("value", NVTX_PAYLOAD_SCHEMA_TYPE_UNION, 0, 8, ENTRIES(members), 0);
  const nvtxPayloadSchemaEntry_t entries[] = {Entry("kind", NVTX_PAYLOAD_ENTRY_TYPE_INT32, 0, 0),
                                              Entry("value", value, 0, 0)};
  const uint64_t chosen = Register("chosen", NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, 0,
                                   sizeof(struct Chosen), ENTRIES(entries), 0);
  const struct Chosen whole = {0, {.whole = -9}};
  const struct Chosen real = {1, {.real = 0.75}};
  MarkOne("union of a whole number", chosen, &whole, sizeof(whole));
  MarkOne("union of a real number", chosen, &real, sizeof(real));

  struct Tagged {
    uint32_t tag;
    union {
      uint64_t count;
      float share;
    } value;
  };
  const nvtxPayloadSchemaEntry_t tagged_entries[] = {
      EntryAt("tag", NVTX_PAYLOAD_ENTRY_TYPE_UNION_SELECTOR, 0),
      EntryAt("count", NVTX_PAYLOAD_ENTRY_TYPE_UINT64, 8),
      EntryAt("share", NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, 8)};
  const struct Tagged tagged = {2, {.share = 0.25f}};
  MarkOne("union with a tag",
          Register("tagged", NVTX_PAYLOAD_SCHEMA_TYPE_UNION_WITH_INTERNAL_SELECTOR, 0,
                   sizeof(tagged), ENTRIES(tagged_entries), 0),
          &tagged, sizeof(tagged));
}

static void Several(void) {
  const int32_t numbers[] = {5, -6, 7};
  MarkOne("plain numbers", NVTX_PAYLOAD_ENTRY_TYPE_INT32, numbers, sizeof(numbers));

  struct Pointing {
    const int32_t* inside;
  };
  const nvtxPayloadSchemaEntry_t entries[] = {Entry(
      "inside", NVTX_PAYLOAD_ENTRY_TYPE_INT32,
      NVTX_PAYLOAD_ENTRY_FLAG_POINTER | NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_PAYLOAD_INDEX, 2)};
  const uint64_t schema = Register("pointing", NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, 0,
                                   sizeof(struct Pointing), ENTRIES(entries), 0);
  const struct Pointing pointing = {numbers + 1};
  const uint64_t length = 2;
  const nvtxPayloadData_t payloads[] = {
      {schema, sizeof(pointing), &pointing},
      {NVTX_TYPE_PAYLOAD_SCHEMA_REFERENCED, sizeof(numbers), numbers},
      {NVTX_PAYLOAD_ENTRY_TYPE_UINT64, sizeof(length), &length}};
  Mark("into another payload", payloads, 3);

  const struct Pointing wild = {(const int32_t*)16};
  const nvtxPayloadData_t bad[] = {{schema, sizeof(wild), &wild}, payloads[1], payloads[2]};
  Mark("an address of nothing", bad, 3);
}

// An enumeration of one byte, and one of flags; names from a buffer that is used again.
static void Named(void) {
  char third[8] = "third";
  const nvtxPayloadEnum_t narrow[] = {{"unknown", (uint64_t)-1, 0}, {third, 3, 0}};
  const nvtxPayloadEnum_t flags[] = {{"read", 1, 1}, {"write", 2, 1}, {"execute", 4, 1}};
  nvtxPayloadEnumAttr_t attr;
  memset(&attr, 0, sizeof(attr));
  attr.fieldMask = NVTX_PAYLOAD_ENUM_ATTR_FIELD_NAME | NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES |
                   NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES | NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE;
  attr.name = "narrow";
  attr.entries = narrow;
  attr.numEntries = 2;
  attr.sizeOfEnum = 1;
  const uint64_t narrow_id = nvtxPayloadEnumRegister(domain, &attr);
  attr.name = "flags";
  attr.entries = flags;
  attr.numEntries = 3;
  attr.sizeOfEnum = 4;
  const uint64_t flags_id = nvtxPayloadEnumRegister(domain, &attr);
  strcpy(third, "gone");
  struct Mode {
    int8_t narrow;
    uint32_t flags;
    int8_t other;
  };
  const nvtxPayloadSchemaEntry_t entries[] = {
      Entry("narrow", narrow_id, 0, 0), EntryAt("flags", flags_id, offsetof(struct Mode, flags)),
      EntryAt("other", narrow_id, offsetof(struct Mode, other))};
  const uint64_t id = Register("Mode", NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, 0, sizeof(struct Mode),
                               ENTRIES(entries), 0);
  const struct Mode mode = {-1, 5, 7};
  MarkOne("a mode", id, &mode, sizeof(mode));

  struct Outer {
    uint64_t first;
    struct Mode mode;
  };
  const nvtxPayloadSchemaEntry_t outer_entries[] = {
      Entry("first", NVTX_PAYLOAD_ENTRY_TYPE_UINT64, 0, 0),
      EntryAt("mode", id, offsetof(struct Outer, mode))};
  const struct Outer outer = {1, {3, 2, 3}};
  MarkOne("a mode within",
          Register("Outer", NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, 0, sizeof(struct Outer),
                   ENTRIES(outer_entries), 0),
          &outer, sizeof(outer));
}

// As NCCL does it: chosen ids, and an enumeration among the types.
static void Chosen(void) {
  static const nvtxPayloadEnum_t values[] = {{"Sum", 0, 0}, {"Max", 2, 0}};
  nvtxPayloadEnumAttr_t attr;
  memset(&attr, 0, sizeof(attr));
  attr.fieldMask = NVTX_PAYLOAD_ENUM_ATTR_FIELD_NAME | NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES |
                   NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES | NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE |
                   NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID;
  attr.name = "operation";
  attr.entries = values;
  attr.numEntries = 2;
  attr.sizeOfEnum = 4;
  attr.schemaId = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 11;
  nvtxPayloadEnumRegister(domain, &attr);
  struct AllReduce {
    uint64_t comm;
    size_t bytes;
    int32_t operation;
  };
  const nvtxPayloadSchemaEntry_t entries[] = {
      Entry("communicator", NVTX_PAYLOAD_ENTRY_TYPE_UINT64, 0, 0),
      EntryAt("bytes", NVTX_PAYLOAD_ENTRY_TYPE_SIZE, offsetof(struct AllReduce, bytes)),
      EntryAt("operation", attr.schemaId, offsetof(struct AllReduce, operation))};
  const uint64_t id = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 3;
  Register("AllReduce", NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, 0, sizeof(struct AllReduce),
           ENTRIES(entries), id);
  const struct AllReduce call = {0xabc, 4096, 2};
  MarkOne("all-reduce", id, &call, sizeof(call));

  attr.sizeOfEnum = 3;
  attr.schemaId = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 12;
  nvtxPayloadEnumRegister(domain, &attr);
  const nvtxPayloadSchemaEntry_t odd_entries[] = {Entry("odd", attr.schemaId, 0, 0)};
  MarkOne("an odd enumeration",
          Register("odd", NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, 0, 3, ENTRIES(odd_entries), 0), &call,
          3);
}

static void Texts(void) {
  struct Wide {
    const uint16_t* sixteen;
    const wchar_t* thirty_two;
  };
  static const uint16_t text[] = {'k', 0xe9, 0xd83d, 0xde00, 0};
  const nvtxPayloadSchemaEntry_t entries[] = {
      Entry("sixteen", NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF16, 0, 0),
      Entry("thirty_two", NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF32, 0, 0)};
  const struct Wide wide = {text, L"w\u4e2d"};
  MarkOne("wide texts",
          Register("wide", NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, 0, sizeof(wide), ENTRIES(entries), 0),
          &wide, sizeof(wide));
}

int main(void) {
  domain = nvtxDomainCreateA("shapes");
  Arrays();
  Dynamic();
  Unions();
  Several();
  Chosen();
  Named();
  Texts();
  return 0;
}
