#include "agent/nccl_record.h"

#include <algorithm>
#include <atomic>
#include <iterator>

#include "agent/lanes.h"
#include "agent/process.h"
#include "agent/registry.h"
#include "agent/text.h"

namespace poolscope::agent::nccl {
namespace {

// The payload, in the order of its words.
constexpr struct {
  const char* name;
  FieldType type;
} kFields[] = {{"communicator", FieldType::kUint64}, {"rank", FieldType::kInt64},
               {"ranks", FieldType::kInt64},         {"sequence", FieldType::kUint64},
               {"bytes", FieldType::kUint64},        {"count", FieldType::kUint64},
               {"datatype", FieldType::kString},     {"peer", FieldType::kInt64},
               {"algorithm", FieldType::kString},    {"protocol", FieldType::kString},
               {"channels", FieldType::kUint64},     {"tid", FieldType::kUint64},
               {"called_ns", FieldType::kInt64},     {"timing", FieldType::kString},
               {"open_id", FieldType::kUint64}};
constexpr uint32_t kFieldCount = std::size(kFields);
constexpr uint32_t kWords = 1 + kFieldCount;
// What stands beside it once the operation has ended.
constexpr const char* kPartFields[] = {"group", "proxies", "slowest_channel", "channel_spread_ns"};
constexpr uint32_t kPartCount = std::size(kPartFields);
static_assert(kWords <= kMaxProcessRangeWords && kFieldCount <= kMaxSchemaFields &&
              kWords + 1 + kPartCount <= kMaxPayloadWords);
// Of the table, so that what the job opens itself has room there too.
constexpr uint32_t kMostOpen = kMaxOpenProcessRanges / 2;

constexpr const char* kTimings[] = {"enqueued", "proxy", "kernel"};  // by Timing

// Set by DefineRecord, before any operation.
bool defined = false;
uint32_t schema = 0, parts_schema = 0, domain = 0;
uint32_t timings[std::size(kTimings)];

std::atomic<uint32_t> open_count{0};

// `words`, kWords or more, holds what the payload refers to.
EventPayload PayloadOf(const OperationRecord& record, uint64_t* words) {
  const uint64_t values[kWords] = {schema | uint64_t{kFieldCount} << 32,
                                   record.communicator,
                                   static_cast<uint64_t>(record.rank),
                                   static_cast<uint64_t>(record.ranks),
                                   record.sequence,
                                   record.bytes,
                                   record.count,
                                   record.datatype,
                                   static_cast<uint64_t>(record.peer),
                                   record.algorithm,
                                   record.protocol,
                                   record.channels,
                                   record.tid,
                                   static_cast<uint64_t>(record.called_ns),
                                   timings[static_cast<size_t>(record.timing)],
                                   record.open_id};
  std::copy(std::begin(values), std::end(values), words);
  EventPayload payload;
  payload.words = kWords;
  payload.groups = words;
  return payload;
}

}  // namespace

void DefineRecord() {
  if (defined) return;
  defined = true;
  SchemaFieldDef fields[kFieldCount];
  for (uint32_t i = 0; i < kFieldCount; ++i) {
    fields[i] = {InternText(kFields[i].name), static_cast<uint16_t>(kFields[i].type), 0};
  }
  schema = InternText("nccl.operation");
  session.Define(DefinitionKind::kSchema, schema, fields, sizeof(fields), 0);
  SchemaFieldDef parts[kPartCount];
  for (uint32_t i = 0; i < kPartCount; ++i) {
    parts[i] = {InternText(kPartFields[i]), static_cast<uint16_t>(FieldType::kUint64), 0};
  }
  parts_schema = InternText("nccl.parts");
  session.Define(DefinitionKind::kSchema, parts_schema, parts, sizeof(parts), 0);
  domain = RegisterDomain(InternText("nccl"));
  for (size_t i = 0; i < std::size(kTimings); ++i) timings[i] = InternText(kTimings[i]);
}

void Open(ThreadWriter& writer, OperationRecord& record) {
  if (record.lane == kNoLane) return;
  if (open_count.fetch_add(1, std::memory_order_relaxed) < kMostOpen) {
    uint64_t words[kWords];
    record.open_id =
        session.OpenProcessRange(&writer, domain, record.function, 0, PayloadOf(record, words));
  }
  if (record.open_id == 0) open_count.fetch_sub(1, std::memory_order_relaxed);
}

void Close(OperationRecord& record) {
  if (record.open_id == 0) return;
  session.CloseProcessRange(record.open_id);
  record.open_id = 0;
  open_count.fetch_sub(1, std::memory_order_relaxed);
}

void ForgetOpenInChild() { open_count.store(0, std::memory_order_relaxed); }

void Write(OperationRecord record) {
  if (const Inside inside(true); inside) {
    if (record.lane == kNoLane) {
      inside->Lose(LossCause::kOpenTableFull);
    } else {
      uint64_t words[kWords + 1 + kPartCount];
      EventPayload payload = PayloadOf(record, words);
      const uint64_t parts[] = {parts_schema | uint64_t{kPartCount} << 32, record.group,
                                record.proxies, record.slowest_channel, record.channel_spread_ns};
      static_assert(std::size(parts) == 1 + kPartCount);
      std::copy(std::begin(parts), std::end(parts), words + kWords);
      payload.words = std::size(words);
      inside->Activity(record.lane, domain, record.function, 0,
                       static_cast<uint64_t>(record.start_ns), static_cast<uint64_t>(record.end_ns),
                       true, payload);
    }
  }
  Close(record);
}

}  // namespace poolscope::agent::nccl
