#pragma once

#include <cstdint>
#include <initializer_list>

#include "agent/nvtx.h"
#include "agent/own_schema.h"
#include "trace/limits.h"
#include "trace/thread_writer.h"

// NVTX payload schemas: from a registered layout to the session's 8-byte fields.

namespace poolscope::agent {

// How a value of the job's memory becomes one 8-byte word.
enum class Source : uint8_t {
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kStringHandle,  // NVTX registered string
  kTextAddress,   // char*, terminated
  kTextInPlace,   // char[n], terminated or not
};

struct Field {
  uint32_t name;    // string id
  uint32_t offset;  // bytes
  uint32_t bytes;   // of kTextInPlace
  Source source;

  bool operator==(const Field&) const = default;
};

struct Schema {
  uint32_t name = 0;         // string id, unique among the session's schemas
  uint32_t field_count = 0;  // 0: nothing of it can be recorded
  uint32_t static_bytes = 0;
  int32_t message_field = -1;  // the field that names the event; of these -1: none does
  int32_t category_field = -1;
  int32_t begin_field = -1;  // when the event began, or was
  int32_t end_field = -1;
  uint64_t clock = 0;       // that these times are in (agent/clocks.h)
  bool partial = false;     // has fields that cannot be recorded
  bool plain = false;       // all 8 bytes wide and in order: copied as they are
  uint32_t enum_bytes = 0;  // not 0: an enumeration, an integer of this size
  Field fields[kMaxSchemaFields];
};

// Lays the schema out; names of fields are interned. `nested` finds the schemas it refers to.
void LayOut(const nvtxPayloadSchemaAttr_t& attributes,
            const Schema* (*nested)(uint32_t domain, uint64_t id), uint32_t domain, Schema* schema);

// The 8-byte value of a predefined NVTX type, and how many bytes it takes; 0: not a number here.
uint32_t NumberSource(uint64_t type, Source* source);
uint64_t ReadValue(const void* at, Source source);
FieldType TypeOf(Source source);

// Payload words of one event while it is being recorded.
class PayloadWords {
 public:
  // Adds a group for each payload; what cannot be recorded is counted as kPayloadTooLarge.
  void Add(ThreadWriter& writer, uint32_t domain, const nvtxPayloadData_t* payloads, size_t count);

  // Adds a group of one of the agent's schemas.
  void AddOwn(ThreadWriter& writer, OwnSchema schema, std::initializer_list<uint64_t> values);

  uint32_t count() const { return count_; }
  const uint64_t* words() const { return words_; }
  uint32_t message() const { return message_; }  // string id, 0: no payload names the event
  uint32_t category() const { return category_; }

 private:
  bool AddOne(ThreadWriter& writer, uint32_t domain, const nvtxPayloadData_t& payload);

  uint32_t count_ = 0;
  uint32_t message_ = 0;
  uint32_t category_ = 0;
  uint64_t words_[kMaxPayloadWords];
};

inline EventPayload PayloadOf(const PayloadWords& words) {
  return {.value = 0, .flags = 0, .words = words.count(), .groups = words.words()};
}

}  // namespace poolscope::agent
