#include "agent/cupti_record.h"

#include <stdio.h>
#include <time.h>

#include <iterator>

#include "agent/lanes.h"
#include "agent/registry.h"
#include "agent/text.h"

namespace poolscope::agent::cupti {
namespace {

struct FieldOf {
  const char* name;
  FieldType type = FieldType::kUint64;
};

struct Type {
  const char* name;
  uint32_t field_count;
  FieldOf fields[kMaxRecordFields];
};

constexpr FieldOf kRange = {"range", FieldType::kString};
constexpr Type kTypes[kRecordTypes] = {
    {"cuda.kernel",
     11,
     {{"correlation"},
      {"launch_tid"},
      kRange,
      {"range_open_id"},
      {"blocks"},
      {"threads_per_block"},
      {"registers"},
      {"shared_bytes"},
      {"graph"},
      {"graph_node"},
      {"queued_ns"}}},
    {"cuda.copy",
     9,
     {{"correlation"},
      {"launch_tid"},
      kRange,
      {"range_open_id"},
      {"bytes"},
      {"from", FieldType::kString},
      {"to", FieldType::kString},
      {"from_device"},
      {"to_device"}}},
    {"cuda.memset", 5, {{"correlation"}, {"launch_tid"}, kRange, {"range_open_id"}, {"bytes"}}},
    {"cuda.memory",
     11,
     {{"correlation"},
      {"launch_tid"},
      kRange,
      {"range_open_id"},
      {"bytes"},
      {"kind", FieldType::kString},
      {"stream"},
      {"pool"},
      {"pool_bytes"},
      {"address"},
      {"variable", FieldType::kString}}},
    {"cuda.synchronization", 3, {{"correlation"}, {"launch_tid"}, {"kind", FieldType::kString}}},
    {"cuda.overhead", 2, {{"kind", FieldType::kString}, {"launch_tid"}}},
};

// Set by DefineRecords, before any record.
bool defined = false;
uint32_t domain = 0;
uint32_t schemas[kRecordTypes];

constexpr uint32_t kPatienceMs = 1000;

// Waits for the collector to make room for the largest record; CUPTI's buffers, which are bounded,
// wait with the thread. Where nobody makes room, records are lost without waiting until somebody
// does.
void AwaitRoom(ThreadWriter& writer) {
  static bool patient = true;
  bool room = writer.HasRoom(1 + kMaxRecordFields);
  for (uint32_t i = 0; !room && patient && i < kPatienceMs; ++i) {
    const timespec pause = {0, 1'000'000};
    nanosleep(&pause, nullptr);
    room = writer.HasRoom(1 + kMaxRecordFields);
  }
  patient = room;
}

// The lanes used last, by the one thread that writes.
struct KnownLane {
  uint64_t device, context, stream;
  uint32_t lane;
  bool known;
};
KnownLane known_lanes[64];

uint32_t LaneFor(const Record& record) {
  const uint64_t mixed = record.stream * 5 + record.context * 17 + record.device * 29;
  KnownLane& known = known_lanes[mixed % std::size(known_lanes)];
  if (known.known && known.stream == record.stream && known.context == record.context &&
      known.device == record.device) {
    return known.lane;
  }
  char name[96];
  int bytes = record.type == RecordType::kOverhead ? snprintf(name, sizeof(name), "CUDA overhead")
              : record.device != kNoDevice
                  ? snprintf(name, sizeof(name), "device %lu", record.device)
              : record.stream == kMemoryStream
                  ? snprintf(name, sizeof(name), "host")
                  : snprintf(name, sizeof(name), "context %lu", record.context);
  char* end = name + bytes;
  const size_t left = sizeof(name) - static_cast<size_t>(bytes);
  if (record.stream == kMemoryStream) {
    snprintf(end, left, " memory");
  } else if (record.stream != kNoStream) {
    snprintf(end, left, " stream %lu", record.stream);
  }
  const uint32_t lane = LaneOf(
      {InternText(name), LaneKind::kDeviceStream, record.device, record.context, record.stream});
  known = {record.device, record.context, record.stream, lane, lane != kNoLane};
  return lane;
}

}  // namespace

void DefineRecords() {
  if (defined) return;
  defined = true;
  domain = RegisterDomain(InternText("cuda"));
  for (uint32_t i = 0; i < kRecordTypes; ++i) {
    const Type& type = kTypes[i];
    SchemaFieldDef fields[kMaxRecordFields];
    for (uint32_t f = 0; f < type.field_count; ++f) {
      fields[f] = {InternText(type.fields[f].name), static_cast<uint16_t>(type.fields[f].type), 0};
    }
    schemas[i] = InternText(type.name);
    session.Define(DefinitionKind::kSchema, schemas[i], fields,
                   type.field_count * uint32_t{sizeof(SchemaFieldDef)}, 0);
  }
}

uint32_t RecordDomain() { return domain; }

void Write(ThreadWriter& writer, const Record& record) {
  AwaitRoom(writer);
  const uint32_t lane = LaneFor(record);
  if (lane == kNoLane) return writer.Lose(LossCause::kOpenTableFull);
  const auto type = static_cast<uint32_t>(record.type);
  const uint32_t count = kTypes[type].field_count;
  uint64_t words[1 + kMaxRecordFields];
  words[0] = schemas[type] | uint64_t{count} << 32;
  for (uint32_t i = 0; i < count; ++i) words[1 + i] = record.fields[i];
  EventPayload payload;
  payload.words = 1 + count;
  payload.groups = words;
  writer.Activity(lane, domain, record.name, 0, record.start_ns, record.end_ns, true, payload);
}

uint32_t DefineCounter(uint64_t device, const char* name) {
  char text[96];
  if (device == kNoDevice) {
    snprintf(text, sizeof(text), "host.%s", name);
  } else {
    snprintf(text, sizeof(text), "device %lu.%s", device, name);
  }
  const uint32_t counter = InternText(text);
  const uint32_t definition[2] = {domain, 1};
  session.Define(DefinitionKind::kCounter, counter, definition, sizeof(definition), domain);
  return counter;
}

void WriteCounter(ThreadWriter& writer, uint32_t counter, uint64_t at_ns,
                  const EventPayload& value) {
  AwaitRoom(writer);
  writer.Past(RecordKind::kCounter, domain, counter, 0, at_ns, 0, true, value);
}

}  // namespace poolscope::agent::cupti
