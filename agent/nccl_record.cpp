#include "agent/nccl_record.h"

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
               {"called_ns", FieldType::kInt64},     {"timing", FieldType::kString}};
constexpr uint32_t kFieldCount = std::size(kFields);
static_assert(kFieldCount + 1 <= kMaxPayloadWords && kFieldCount <= kMaxSchemaFields);

constexpr const char* kTimings[] = {"enqueued", "proxy", "kernel"};  // by Timing

// Set by DefineRecord, before any operation.
bool defined = false;
uint32_t schema = 0, domain = 0;
uint32_t timings[std::size(kTimings)];

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
  domain = RegisterDomain(InternText("nccl"));
  for (size_t i = 0; i < std::size(kTimings); ++i) timings[i] = InternText(kTimings[i]);
}

void Write(const OperationRecord& record) {
  const Inside inside(true);
  if (!inside) return;
  if (record.lane == kNoLane) return inside->Lose(LossCause::kOpenTableFull);
  const uint64_t words[1 + kFieldCount] = {schema | uint64_t{kFieldCount} << 32,
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
                                           timings[static_cast<size_t>(record.timing)]};
  EventPayload payload;
  payload.words = 1 + kFieldCount;
  payload.groups = words;
  inside->Activity(record.lane, domain, record.function, 0, static_cast<uint64_t>(record.start_ns),
                   static_cast<uint64_t>(record.end_ns), true, payload);
}

}  // namespace poolscope::agent::nccl
