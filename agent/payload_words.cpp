#include "agent/payload_words.h"

#include <string.h>

#include <algorithm>

#include "agent/enumerations.h"
#include "agent/registry.h"
#include "agent/text.h"

namespace poolscope::agent {
namespace {

constexpr uint64_t kNoLength = ~uint64_t{0};

template <typename T>
T Load(const void* at) {
  T value;
  memcpy(&value, at, sizeof(value));
  return value;
}

bool IsZero(const char* at, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; ++i) {
    if (at[i] != 0) return false;
  }
  return true;
}

// The product of the first values, 1 of none; values that are no lengths give kNoLength.
uint64_t Product(const char* at, uint64_t count, uint32_t stride, Source source) {
  uint64_t product = 1;
  for (uint64_t i = 0; i < count && i < 8; ++i) {
    const uint64_t value = ReadValue(at + i * stride, source);
    if (value > 1u << 30 || product > 1u << 30) return kNoLength;
    product *= value;
  }
  return product;
}

}  // namespace

void PayloadWords::Add(ThreadWriter& writer, uint32_t domain, const nvtxPayloadData_t* payloads,
                       size_t count) {
  if (payloads == nullptr) return;
  bool complete = true;
  const Payloads all = {payloads, std::min<size_t>(count, kMaxPayloadWords), domain};
  for (size_t i = 0; i < all.count; ++i) complete &= AddOne(writer, all, payloads[i]);
  if (!complete) [[unlikely]]
    writer.Lose(LossCause::kPayloadTooLarge);
}

void PayloadWords::AddOwn(ThreadWriter& writer, OwnSchema schema,
                          std::initializer_list<uint64_t> values) {
  const uint32_t name = OwnSchemaName(schema);
  if (name == 0 || count_ + 1 + values.size() > kMaxPayloadWords) {
    return writer.Lose(LossCause::kPayloadTooLarge);
  }
  words_[count_++] = uint64_t{values.size()} << 32 | name;
  for (const uint64_t value : values) words_[count_++] = value;
}

bool PayloadWords::AddOne(ThreadWriter& writer, const Payloads& all,
                          const nvtxPayloadData_t& payload) {
  const Schema* schema = FindSchema(all.domain, payload.schemaId);
  if (schema == nullptr) [[unlikely]] {
    if (payload.schemaId == NVTX_TYPE_PAYLOAD_SCHEMA_REFERENCED) return true;  // by other payloads
    const Number number = NumberOf(payload.schemaId);
    return number.bytes != 0 && payload.payload != nullptr && AddNumbers(payload, number);
  }
  if (schema->field_count + schema->part_count == 0 || payload.payload == nullptr ||
      payload.size < schema->static_bytes || count_ + 1 + schema->field_count > kMaxPayloadWords) {
    return false;
  }
  if (schema->field_count != 0) {
    uint64_t* at = words_ + count_;
    *at++ = uint64_t{schema->field_count} << 32 | schema->name;
    const auto* bytes = static_cast<const char*>(payload.payload);
    for (uint32_t i = 0; i < schema->field_count; ++i) {
      const Field& field = schema->fields[i];
      if (schema->plain && field.source != Source::kStringHandle) {
        at[i] = Load<uint64_t>(bytes + 8 * i);
      } else if (field.source == Source::kTextInPlace) {
        at[i] = InternBytes(bytes + field.offset, strnlen(bytes + field.offset, field.bytes));
      } else if (field.source == Source::kTextAddress) {
        at[i] = NameOf(writer, Load<const char*>(bytes + field.offset));
      } else if (field.source == Source::kEnumName) {
        uint64_t value = 0;
        memcpy(&value, bytes + field.offset, field.bytes);
        at[i] = EnumerationName(field.enumeration, value, field.bytes);
      } else {
        at[i] = ReadValue(bytes + field.offset, field.source);
      }
    }
    if (schema->message_field >= 0) message_ = static_cast<uint32_t>(at[schema->message_field]);
    if (schema->category_field >= 0) category_ = static_cast<uint32_t>(at[schema->category_field]);
    count_ += 1 + schema->field_count;
  }
  const bool complete = schema->part_count == 0 || AddParts(all, payload, *schema);
  return complete && !schema->partial;
}

// A payload whose schema is a predefined type: one value or several.
bool PayloadWords::AddNumbers(const nvtxPayloadData_t& payload, const Number& number) {
  const FieldType type = TypeOf(number.source);
  const uint32_t name = OwnSchemaName(type == FieldType::kUint64   ? OwnSchema::kUints
                                      : type == FieldType::kInt64  ? OwnSchema::kInts
                                      : type == FieldType::kDouble ? OwnSchema::kDoubles
                                                                   : OwnSchema::kStrings);
  Part part = {};
  part.stride = part.bytes = number.bytes;
  part.source = number.source;
  return name != 0 && AddGroup(name, part,
                               {static_cast<const char*>(payload.payload), payload.size,
                                payload.size / number.bytes});
}

bool PayloadWords::AddParts(const Payloads& all, const nvtxPayloadData_t& payload,
                            const Schema& schema) {
  bool complete = true;
  uint64_t products[kMaxSchemaParts] = {};
  uint64_t end = schema.static_bytes;  // of the part before, for those that follow
  for (uint32_t i = 0; i < schema.part_count; ++i) {
    const Part& part = schema.parts[i];
    if (part.selector.kind != Reference::kNone &&
        Resolve(all, payload, part.selector, products) != part.member) {
      continue;
    }
    const uint64_t alignment = part.where == Part::kHere ? part.bytes : sizeof(void*);
    const uint64_t offset = part.offset == kFollows ? (end + alignment - 1) / alignment * alignment
                                                    : uint64_t{part.offset};
    Values values;
    values.count = part.shape == Part::kOne ? 1 : part.count;
    if (part.shape == Part::kCounted) values.count = Resolve(all, payload, part.length, products);
    if (values.count == kNoLength || !Locate(all, payload, part, offset, &values)) {
      return false;  // nor can be told where later ones are
    }
    if (part.where == Part::kHere) {
      end = offset + (values.count + (part.shape == Part::kTerminated ? 1 : 0)) * part.stride;
    } else if (part.offset == kFollows) {
      end = offset + sizeof(void*);
    }
    if (TypeOf(part.source) != FieldType::kString) {
      products[i] = Product(values.at, values.count, part.stride, part.source);
    }
    complete &= AddGroup(schema.part_names[i], part, values);
  }
  return complete;
}

// The elements that the part has, if all lie where they may; of a terminated array it counts them.
bool PayloadWords::Locate(const Payloads& all, const nvtxPayloadData_t& payload, const Part& part,
                          uint64_t offset, Values* values) {
  const auto* base = static_cast<const char*>(payload.payload);
  if (part.where == Part::kHere) {
    if (offset > payload.size) return false;
  } else {
    if (offset + sizeof(uint64_t) > payload.size) return false;
    const auto given = Load<uint64_t>(base + offset);
    if (part.where == Part::kAddress) {
      values->at = reinterpret_cast<const char*>(static_cast<uintptr_t>(given));
      values->room = part.trusted && given != 0 ? ~uint64_t{0} : 0;
      for (size_t i = 0; i < all.count; ++i) {
        const uint64_t into = given - reinterpret_cast<uintptr_t>(all.at[i].payload);
        if (all.at[i].payload != nullptr && into < all.at[i].size) {
          values->room = all.at[i].size - into;
        }
      }
    } else {
      if (given > payload.size) return false;
      offset = given + (part.where == Part::kFromHere ? offset + sizeof(uint64_t) : 0);
      if (offset > payload.size) return false;
    }
  }
  if (part.where != Part::kAddress) {
    values->at = base + offset;
    values->room = payload.size - offset;
  }
  if (part.shape == Part::kTerminated) {
    const uint64_t most = std::min<uint64_t>(values->room / part.stride, kMaxStringBytes);
    uint64_t count = 0;
    while (count < most && !IsZero(values->at + count * part.stride, part.bytes)) ++count;
    values->count = count;
    return values->room != 0;
  }
  return values->count == 0 || (values->room >= part.bytes &&
                                (values->room - part.bytes) / part.stride >= values->count - 1);
}

uint64_t PayloadWords::Resolve(const Payloads& all, const nvtxPayloadData_t& payload,
                               const Reference& reference, const uint64_t* products) {
  switch (reference.kind) {
    case Reference::kAt:
      return Product(static_cast<const char*>(payload.payload) + reference.at, 1, 0,
                     reference.source);
    case Reference::kPart:
      return products[reference.at];
    case Reference::kPayload: {
      if (reference.at >= all.count) return kNoLength;
      const nvtxPayloadData_t& other = all.at[reference.at];
      const Schema* schema = FindSchema(all.domain, other.schemaId);
      Number number = NumberOf(other.schemaId);
      if (schema != nullptr && schema->field_count == 1 && schema->part_count == 0) {
        number = {other.size < schema->static_bytes ? 0 : schema->fields[0].bytes,
                  schema->fields[0].source};
      }
      if (number.bytes == 0 || other.payload == nullptr ||
          TypeOf(number.source) == FieldType::kString) {
        return kNoLength;
      }
      return Product(static_cast<const char*>(other.payload), other.size / number.bytes,
                     number.bytes, number.source);
    }
    default:
      return kNoLength;
  }
}

// As many of the values as there is room for. False: not all.
bool PayloadWords::AddGroup(uint32_t schema, const Part& part, const Values& values) {
  if (count_ == kMaxPayloadWords) return false;
  uint64_t* header = words_ + count_++;
  uint64_t recorded = 0;
  if (part.source == Source::kTextInPlace) {
    if (count_ == kMaxPayloadWords) return --count_, false;
    const uint64_t bytes = std::min<uint64_t>(values.count, kMaxStringBytes + 1);
    // No text may stand at a null address.
    words_[count_++] = bytes == 0 ? 0 : InternBytes(values.at, strnlen(values.at, bytes));
    *header = uint64_t{1} << 32 | schema;
    return true;
  }
  for (; recorded < values.count && count_ < kMaxPayloadWords; ++recorded) {
    words_[count_++] = ReadValue(values.at + recorded * part.stride, part.source);
  }
  *header = recorded << 32 | schema;
  return recorded == values.count;
}

}  // namespace poolscope::agent
