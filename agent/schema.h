#pragma once

#include <cstdint>

#include "agent/nvtx.h"
#include "trace/limits.h"
#include "trace/session_format.h"

// NVTX payload schemas: from a registered layout to the session's 8-byte fields. What has a fixed
// place and one value is a field; arrays and members of unions are parts.

namespace poolscope::agent {

inline constexpr uint32_t kMaxSchemaParts = 16;

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
  kInt128,  // these three as doubles
  kUint128,
  kLongDouble,
  kStringHandle,   // NVTX registered string
  kTextAddress,    // char*, terminated
  kText16Address,  // of UTF-16 units
  kText32Address,  // of UTF-32 units
  kTextInPlace,    // char[n], terminated or not
  kEnumName,       // integer, whose name it is
};

struct Field {
  uint32_t name;    // string id
  uint32_t offset;  // bytes
  uint32_t bytes;
  Source source;
  uint32_t enumeration = 0;  // of kEnumName (agent/enumerations.h)

  bool operator==(const Field&) const = default;
};

// Where a length, or the number of a union's member, stands.
struct Reference {
  enum Kind : uint8_t {
    kNone,
    kEntry,    // of the schema's entry of this index: while it is laid out
    kAt,       // at this offset of the payload
    kPart,     // the value of this part; of an array, the product of all
    kPayload,  // in the event's payload of this index; the product of all its values
  };
  Kind kind;
  Source source;
  uint32_t at;

  bool operator==(const Reference&) const = default;
};

// An array or a member of a union: recorded as a group of its own after the schema's.
struct Part {
  enum Shape : uint8_t { kOne, kFixed, kTerminated, kCounted };
  enum Where : uint8_t { kHere, kAddress, kFromBase, kFromHere };

  uint32_t name;    // string id
  uint32_t offset;  // of the entry; kFollows: after the part before
  uint32_t stride;  // from element to element
  uint32_t bytes;   // of an element
  uint32_t count;   // kFixed
  uint32_t member;  // recorded only where `selector` says this
  Reference length, selector;
  Source source;
  Shape shape;
  Where where;
  bool trusted;  // an address outside of the event's payloads is good too

  bool operator==(const Part&) const = default;
};
inline constexpr uint32_t kFollows = ~0u;

struct Schema {
  uint32_t name = 0;         // string id, unique among the session's schemas
  uint32_t field_count = 0;  // with part_count 0 too: nothing of it can be recorded
  uint32_t part_count = 0;
  uint32_t static_bytes = 0;   // a payload has at least so many
  int32_t message_field = -1;  // the field that names the event; of these -1: none does
  int32_t category_field = -1;
  int32_t begin_field = -1;  // when the event began, or was
  int32_t end_field = -1;
  uint64_t clock = 0;        // that these times are in (agent/clocks.h)
  bool partial = false;      // has fields that cannot be recorded
  bool plain = false;        // all 8 bytes wide and in order: copied as they are
  bool is_union = false;     // all are parts
  uint32_t enum_bytes = 0;   // not 0: an enumeration, an integer of this size
  uint32_t enumeration = 0;  // of its names, 0: none are known
  Field fields[kMaxSchemaFields];
  Part parts[kMaxSchemaParts];
  uint32_t part_names[kMaxSchemaParts];  // string ids of the groups' schemas
};

// Lays the schema out; names of fields are interned. `nested` finds the schemas it refers to.
void LayOut(const nvtxPayloadSchemaAttr_t& attributes,
            const Schema* (*nested)(uint32_t domain, uint64_t id), uint32_t domain, Schema* schema);

struct Number {
  uint32_t bytes;  // 0: no number that fits 8 bytes
  Source source;
};
Number NumberOf(uint64_t type);  // of a predefined NVTX type; string handles are numbers here

// The 8-byte value of a predefined NVTX type, and how many bytes it takes; 0: not a number.
uint32_t NumberSource(uint64_t type, Source* source);
uint64_t ReadValue(const void* at, Source source);
FieldType TypeOf(Source source);

}  // namespace poolscope::agent
