// Any bytes as what a job registers, layouts and enumerations, and as the payloads that it then
// sends: nothing may be read beyond what the job gave, crash, hang or grow without bound. Pointers
// that a job vouches for are replaced by good ones, as they must be.
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "agent/clocks.h"
#include "agent/enumerations.h"
#include "agent/payload_words.h"
#include "agent/process.h"
#include "agent/registry.h"

namespace poolscope::agent {

// Of the process, which is not otherwise one with the agent in it.
SessionWriter session;
constinit thread_local ThreadWriter* current_writer = nullptr;
constinit thread_local bool is_inside = false;
uint64_t ClockOf(const nvtxSemanticsHeader_t*) { return 0; }
void LockRegistry() {}
void UnlockRegistry() {}

namespace {

constexpr size_t kMostSchemas = 6;
std::vector<Schema> known;  // of this input; the job's ids of them begin at the lowest there may be

}  // namespace

const Schema* FindSchema(uint32_t, uint64_t id) {
  const uint64_t index = id - NVTX_PAYLOAD_SCHEMA_ID_STATIC_START;
  return index < known.size() ? &known[index] : nullptr;
}

namespace {

constexpr char kText[] = "text";
constexpr char16_t kText16[] = {0xd83d, 0xde00, 0xd800, 'x', 0};
constexpr wchar_t kText32[] = {0x1f600, 0x7fffffff, 'x', 0};

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  uint8_t Byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  // One of few bits, or any of 64; most numbers are small.
  uint64_t Number() {
    const uint8_t first = Byte();
    if (first < 0xf0) return first;
    if (first < 0xf8) return uint64_t{1} << (Byte() & 63);
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | Byte();
    return value;
  }
  std::vector<char> Bytes(size_t count) {
    std::vector<char> bytes(count);
    for (char& each : bytes) each = static_cast<char>(Byte());
    return bytes;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

bool IsPointer(Source source) {
  return source == Source::kTextAddress || source == Source::kText16Address ||
         source == Source::kText32Address;
}

uint64_t TypeFrom(Input& input) {
  const uint64_t number = input.Number();  // 0xe0 to 0xef: a layout of before
  return number >= 0xe0 && number < 0xf0 ? NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + number - 0xe0
                                         : number;
}

void Register(Input& input) {
  std::vector<nvtxPayloadSchemaEntry_t> entries(input.Byte() % 80);
  nvtxPayloadSchemaAttr_t attributes = {};
  attributes.fieldMask = input.Number();
  attributes.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC + input.Number();
  attributes.flags = input.Number();
  attributes.payloadStaticSize = input.Number();
  attributes.packAlign = input.Number();
  for (nvtxPayloadSchemaEntry_t& entry : entries) {
    if (input.empty()) break;
    entry.flags = input.Number() | input.Number() << 4;
    entry.type = TypeFrom(input);
    entry.name = (entry.type & 1) != 0 ? "name" : nullptr;
    entry.arrayOrUnionDetail = input.Number();
    entry.offset = input.Number();
  }
  attributes.entries = entries.empty() ? nullptr : entries.data();
  attributes.numEntries = entries.size();
  Schema schema;
  memset(static_cast<void*>(&schema), 0, sizeof(schema));
  LayOut(attributes, FindSchema, 0, &schema);
  schema.name = 1;
  for (uint32_t i = 0; i < schema.field_count; ++i) {
    for (uint32_t k = 0; k < i; ++k) {  // only one pointer can lie in these bytes
      const int64_t apart = int64_t{schema.fields[i].offset} - schema.fields[k].offset;
      if (IsPointer(schema.fields[i].source) && IsPointer(schema.fields[k].source) && apart > -8 &&
          apart < 8) {
        schema.fields[i].source = Source::kUint64;
      }
    }
  }
  for (uint32_t i = 0; i < schema.part_count; ++i) {
    Part& part = schema.parts[i];
    schema.part_names[i] = 1;
    part.trusted = false;
    if (IsPointer(part.source)) part.source = Source::kStringHandle;
  }
  known.push_back(schema);
}

void RegisterEnumeration(Input& input) {
  Schema schema;
  memset(static_cast<void*>(&schema), 0, sizeof(schema));
  schema.message_field = schema.category_field = schema.begin_field = schema.end_field = -1;
  schema.enum_bytes = 1u << (input.Byte() & 3);
  std::vector<nvtxPayloadEnum_t> entries(input.Byte() & 15);
  for (nvtxPayloadEnum_t& entry : entries) {
    entry = {(input.Byte() & 1) != 0 ? "entry" : nullptr, input.Number(),
             static_cast<int8_t>(input.Byte() & 1)};
  }
  schema.enumeration =
      RememberEnumeration(entries.empty() ? nullptr : entries.data(), entries.size());
  known.push_back(schema);
}

void GivePointers(const Schema& schema, std::vector<char>& bytes) {
  for (uint32_t i = 0; i < schema.field_count; ++i) {
    const Field& field = schema.fields[i];
    const void* text = nullptr;
    if (field.source == Source::kTextAddress) text = kText;
    if (field.source == Source::kText16Address) text = kText16;
    if (field.source == Source::kText32Address) text = kText32;
    if (text == nullptr || field.offset + uint64_t{8} > bytes.size()) continue;
    memcpy(bytes.data() + field.offset, &text, sizeof(text));
  }
}

ThreadWriter* StartSession() {
  char folder[] = "/dev/shm/poolscope-fuzz-XXXXXX";
  if (mkdtemp(folder) == nullptr) abort();
  setenv("POOLSCOPE_RUN_DIR", folder, 1);
  Reason why;
  if (!session.Init() || !session.Start(&why)) abort();
  ThreadWriter* writer = session.Attach();
  std::filesystem::remove_all(folder);  // what is mapped stays
  if (writer == nullptr) abort();
  return writer;
}

void Run(Input input) {
  static ThreadWriter* const writer = StartSession();
  known.clear();
  for (size_t i = input.Byte() % (kMostSchemas + 1); i > 0; --i) {
    if ((input.Byte() & 7) == 0) {
      RegisterEnumeration(input);
    } else {
      Register(input);
    }
  }
  std::vector<std::vector<char>> bytes(input.Byte() % 5);
  std::vector<nvtxPayloadData_t> payloads;
  for (std::vector<char>& each : bytes) {
    const uint64_t id = TypeFrom(input);
    each = input.Bytes(input.Byte());
    if (const Schema* schema = FindSchema(0, id); schema != nullptr) GivePointers(*schema, each);
    payloads.push_back({id, each.size(), each.empty() ? nullptr : each.data()});
  }
  PayloadWords words;
  words.Add(*writer, 0, payloads.data(), payloads.size());
  // Groups, one after the other, fill the words.
  uint32_t at = 0;
  while (at < words.count()) at += 1 + static_cast<uint32_t>(words.words()[at] >> 32);
  if (at != words.count() || at > kMaxPayloadWords) __builtin_trap();
}

}  // namespace
}  // namespace poolscope::agent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  poolscope::agent::Run({data, size});
  return 0;
}
