#include "agent/schema.h"

#include <string.h>

#include <bit>

#include "agent/clocks.h"
#include "agent/process.h"
#include "agent/registry.h"
#include "agent/text.h"

namespace poolscope::agent {
namespace {

struct Number {
  uint32_t bytes;  // 0: not a number that fits 8 bytes
  Source source;
};

Number NumberOf(uint64_t type) {
  switch (type) {
    case NVTX_PAYLOAD_ENTRY_TYPE_CHAR:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT8:
      return {1, Source::kInt8};
    case NVTX_PAYLOAD_ENTRY_TYPE_UCHAR:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT8:
    case NVTX_PAYLOAD_ENTRY_TYPE_CHAR8:
    case NVTX_PAYLOAD_ENTRY_TYPE_BYTE:
      return {1, Source::kUint8};
    case NVTX_PAYLOAD_ENTRY_TYPE_SHORT:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT16:
      return {2, Source::kInt16};
    case NVTX_PAYLOAD_ENTRY_TYPE_USHORT:
    case NVTX_PAYLOAD_ENTRY_TYPE_CHAR16:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT16:
      return {2, Source::kUint16};
    case NVTX_PAYLOAD_ENTRY_TYPE_INT:
    case NVTX_PAYLOAD_ENTRY_TYPE_WCHAR:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT32:
      return {4, Source::kInt32};
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT32:
    case NVTX_PAYLOAD_ENTRY_TYPE_CHAR32:
    case NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY:
    case NVTX_PAYLOAD_ENTRY_TYPE_COLOR_ARGB:
    case NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT32:
    case NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT32:
      return {4, Source::kUint32};
    case NVTX_PAYLOAD_ENTRY_TYPE_LONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_LONGLONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT64:
      return {8, Source::kInt64};
    case NVTX_PAYLOAD_ENTRY_TYPE_ULONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_ULONGLONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT64:
    case NVTX_PAYLOAD_ENTRY_TYPE_SIZE:
    case NVTX_PAYLOAD_ENTRY_TYPE_ADDRESS:
    case NVTX_PAYLOAD_ENTRY_TYPE_SCOPE_ID:
    case NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT64:
    case NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT64:
      return {8, Source::kUint64};
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT16:
      return {2, Source::kFloat16};
    case NVTX_PAYLOAD_ENTRY_TYPE_BF16:
      return {2, Source::kBfloat16};
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT:
    case NVTX_PAYLOAD_ENTRY_TYPE_TF32:
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT32:
      return {4, Source::kFloat32};
    case NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE:
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT64:
      return {8, Source::kFloat64};
    case NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE:
      return {8, Source::kStringHandle};
    default:
      return {0, Source::kUint64};
  }
}

Source IntegerOf(uint32_t bytes) {
  return bytes == 1   ? Source::kInt8
         : bytes == 2 ? Source::kInt16
         : bytes == 4 ? Source::kInt32
                      : Source::kInt64;
}

bool IsText(uint64_t type) {
  return type == NVTX_PAYLOAD_ENTRY_TYPE_CSTRING || type == NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8;
}

double HalfToDouble(uint16_t half) {
  const double sign = (half & 0x8000) != 0 ? -1 : 1;
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  if (exponent == 31) return mantissa != 0 ? __builtin_nan("") : sign * __builtin_inf();
  const double value = exponent == 0 ? mantissa : mantissa + 1024;
  // times 2 to the power of -24 or (exponent - 25)
  const uint64_t power = exponent == 0 ? 1023 - 24 : static_cast<uint64_t>(1023 + exponent - 25);
  return sign * value * std::bit_cast<double>(power << 52);
}

template <typename T>
T Load(const void* at) {
  T value;
  memcpy(&value, at, sizeof(value));
  return value;
}

// Collects fields while a schema is laid out.
class Layout {
 public:
  explicit Layout(Schema* schema) : schema_(schema) {}

  // Where an entry of this alignment lies; NVTX takes offset 0 of later entries as "in order".
  uint32_t Place(const nvtxPayloadSchemaEntry_t& entry, bool first, uint32_t bytes,
                 uint32_t alignment) {
    uint32_t offset = static_cast<uint32_t>(entry.offset);
    if (entry.offset == 0 && !first) offset = (end_ + alignment - 1) / alignment * alignment;
    end_ = offset + bytes;
    widest_ = alignment > widest_ ? alignment : widest_;
    return offset;
  }

  void Add(uint32_t name, uint32_t offset, uint32_t bytes, Source source) {
    if (schema_->field_count == kMaxSchemaFields) {
      schema_->partial = true;
      return;
    }
    schema_->fields[schema_->field_count++] = {name, offset, bytes, source};
  }

  uint32_t Bytes() const { return (end_ + widest_ - 1) / widest_ * widest_; }

 private:
  Schema* schema_;
  uint32_t end_ = 0;
  uint32_t widest_ = 1;
};

// What of the event itself the entry, which became `field`, tells.
void TakeRole(const nvtxPayloadSchemaEntry_t& entry, FieldType type, int32_t field,
              Schema* schema) {
  constexpr uint64_t kEvent = 7 << 12;
  if (type == FieldType::kString) {
    if ((entry.flags & NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE) != 0) schema->message_field = field;
  } else if (entry.type == NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY) {
    schema->category_field = field;
  } else if ((entry.flags & NVTX_PAYLOAD_ENTRY_FLAG_TIMESTAMP) != 0 && type != FieldType::kDouble) {
    const bool is_end = (entry.flags & kEvent) == NVTX_PAYLOAD_ENTRY_FLAG_RANGE_END;
    (is_end || schema->begin_field >= 0 ? schema->end_field : schema->begin_field) = field;
    if (const uint64_t clock = ClockOf(entry.semantics); clock != 0) schema->clock = clock;
  }
}

bool IsPlain(const Schema& schema) {
  for (uint32_t i = 0; i < schema.field_count; ++i) {
    const Source source = schema.fields[i].source;
    if (schema.fields[i].offset != 8 * i ||
        (source != Source::kUint64 && source != Source::kInt64 && source != Source::kFloat64 &&
         source != Source::kStringHandle)) {
      return false;
    }
  }
  return schema.field_count != 0;
}

}  // namespace

uint32_t NumberSource(uint64_t type, Source* source) {
  const Number number = NumberOf(type);
  if (number.bytes == 0 || number.source == Source::kStringHandle) return 0;
  *source = number.source;
  return number.bytes;
}

FieldType TypeOf(Source source) {
  switch (source) {
    case Source::kUint8:
    case Source::kUint16:
    case Source::kUint32:
    case Source::kUint64:
      return FieldType::kUint64;
    case Source::kInt8:
    case Source::kInt16:
    case Source::kInt32:
    case Source::kInt64:
      return FieldType::kInt64;
    case Source::kFloat16:
    case Source::kBfloat16:
    case Source::kFloat32:
    case Source::kFloat64:
      return FieldType::kDouble;
    case Source::kStringHandle:
    case Source::kTextAddress:
    case Source::kTextInPlace:
      break;
  }
  return FieldType::kString;
}

uint64_t ReadValue(const void* at, Source source) {
  switch (source) {
    case Source::kUint8:
      return Load<uint8_t>(at);
    case Source::kUint16:
      return Load<uint16_t>(at);
    case Source::kUint32:
      return Load<uint32_t>(at);
    case Source::kUint64:
    case Source::kInt64:
    case Source::kFloat64:
      return Load<uint64_t>(at);
    case Source::kInt8:
      return static_cast<uint64_t>(int64_t{Load<int8_t>(at)});
    case Source::kInt16:
      return static_cast<uint64_t>(int64_t{Load<int16_t>(at)});
    case Source::kInt32:
      return static_cast<uint64_t>(int64_t{Load<int32_t>(at)});
    case Source::kFloat16:
      return std::bit_cast<uint64_t>(HalfToDouble(Load<uint16_t>(at)));
    case Source::kBfloat16:
      return std::bit_cast<uint64_t>(
          double{std::bit_cast<float>(uint32_t{Load<uint16_t>(at)} << 16)});
    case Source::kFloat32:
      return std::bit_cast<uint64_t>(double{Load<float>(at)});
    case Source::kStringHandle:
      return StringOf(Load<uint64_t>(at));
    case Source::kTextAddress:
      return InternText(Load<const char*>(at));
    case Source::kTextInPlace:
      break;  // needs its length
  }
  return 0;
}

void LayOut(const nvtxPayloadSchemaAttr_t& attributes,
            const Schema* (*nested)(uint32_t domain, uint64_t id), uint32_t domain,
            Schema* schema) {
  schema->message_field = schema->category_field = -1;
  schema->begin_field = schema->end_field = -1;
  if (attributes.type != NVTX_PAYLOAD_SCHEMA_TYPE_STATIC || attributes.entries == nullptr) return;
  const bool packed = (attributes.fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT) != 0 &&
                      attributes.packAlign != 0;
  Layout layout(schema);
  for (size_t i = 0; i < attributes.numEntries; ++i) {
    const nvtxPayloadSchemaEntry_t& entry = attributes.entries[i];
    const uint64_t shape = entry.flags & 0x7e;  // pointer, offset or array of any kind
    const auto place = [&](uint32_t bytes, uint32_t alignment) {
      if (packed && attributes.packAlign < alignment) {
        alignment = static_cast<uint32_t>(attributes.packAlign);
      }
      return layout.Place(entry, i == 0, bytes, alignment);
    };
    char fallback[32];
    snprintf(fallback, sizeof(fallback), "field%zu", i);
    const uint32_t name = InternText(entry.name != nullptr ? entry.name : fallback);
    const uint32_t before = schema->field_count;
    const Number number = NumberOf(entry.type);
    const auto length = static_cast<uint32_t>(entry.arrayOrUnionDetail);
    const bool fixed = shape == NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE;
    if ((IsText(entry.type) && length != 0 && (shape == 0 || fixed)) ||
        (entry.type == NVTX_PAYLOAD_ENTRY_TYPE_CHAR && fixed)) {
      layout.Add(name, place(length, 1), length, Source::kTextInPlace);
    } else if (IsText(entry.type) && (shape & ~uint64_t{2}) == 0) {
      layout.Add(name, place(8, 8), 8, Source::kTextAddress);
    } else if (number.bytes != 0 && shape == 0) {
      layout.Add(name, place(number.bytes, number.bytes), number.bytes, number.source);
    } else if (const Schema* inner = nested(domain, entry.type);
               inner != nullptr && shape == 0 && inner->enum_bytes != 0) {
      layout.Add(name, place(inner->enum_bytes, inner->enum_bytes), inner->enum_bytes,
                 IntegerOf(inner->enum_bytes));
    } else if (inner != nullptr && shape == 0 && inner->field_count != 0) {
      const uint32_t offset = place(inner->static_bytes, 8);
      for (uint32_t k = 0; k < inner->field_count; ++k) {
        const Field& field = inner->fields[k];
        layout.Add(InternJoined(name, '.', field.name), offset + field.offset, field.bytes,
                   field.source);
      }
    } else {
      schema->partial = true;
      if (number.bytes != 0 && fixed) {
        place(number.bytes * length, number.bytes);
      } else {
        place(8, 8);  // an address, as far as can be told
      }
    }
    if (schema->field_count == before + 1) {
      TakeRole(entry, TypeOf(schema->fields[before].source), static_cast<int32_t>(before), schema);
    }
  }
  const bool sized = (attributes.fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE) != 0;
  schema->static_bytes =
      sized ? static_cast<uint32_t>(attributes.payloadStaticSize) : layout.Bytes();
  for (uint32_t i = 0; i < schema->field_count; ++i) {  // never read past what the job has
    const Field& field = schema->fields[i];
    if (uint64_t{field.offset} + field.bytes > schema->static_bytes) {
      schema->field_count = i;
      schema->partial = true;
    }
  }
  for (int32_t* field : {&schema->message_field, &schema->category_field, &schema->begin_field,
                         &schema->end_field}) {
    if (*field >= static_cast<int32_t>(schema->field_count)) *field = -1;
  }
  schema->plain = IsPlain(*schema);
}

void PayloadWords::Add(ThreadWriter& writer, uint32_t domain, const nvtxPayloadData_t* payloads,
                       size_t count) {
  if (payloads == nullptr) return;
  bool complete = true;
  for (size_t i = 0; i < count && i < kMaxPayloadWords; ++i) {
    complete &= AddOne(writer, domain, payloads[i]);
  }
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

bool PayloadWords::AddOne(ThreadWriter& writer, uint32_t domain, const nvtxPayloadData_t& payload) {
  const Schema* schema = FindSchema(domain, payload.schemaId);
  if (schema == nullptr || schema->field_count == 0 || payload.payload == nullptr ||
      payload.size < schema->static_bytes || count_ + 1 + schema->field_count > kMaxPayloadWords) {
    return false;
  }
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
    } else {
      at[i] = ReadValue(bytes + field.offset, field.source);
    }
  }
  if (schema->message_field >= 0) message_ = static_cast<uint32_t>(at[schema->message_field]);
  if (schema->category_field >= 0) category_ = static_cast<uint32_t>(at[schema->category_field]);
  count_ += 1 + schema->field_count;
  return !schema->partial;
}

}  // namespace poolscope::agent
