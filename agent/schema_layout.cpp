// From an NVTX schema to fields and parts.

#include <stdio.h>
#include <string.h>

#include "agent/clocks.h"
#include "agent/schema.h"
#include "agent/text.h"

namespace poolscope::agent {
namespace {

constexpr uint32_t kMaxEntries = 64;
constexpr uint64_t kWhere = NVTX_PAYLOAD_ENTRY_FLAG_POINTER |
                            NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_BASE |
                            NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_HERE;
constexpr uint64_t kArray = 7 << 4;

Source IntegerOf(uint32_t bytes) {
  return bytes == 1   ? Source::kInt8
         : bytes == 2 ? Source::kInt16
         : bytes == 4 ? Source::kInt32
                      : Source::kInt64;
}

// Texts by the size of their units: 0 is no text.
uint32_t UnitOfText(uint64_t type) {
  switch (type) {
    case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING:
    case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8:
      return 1;
    case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF16:
      return 2;
    case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF32:
      return 4;
    default:
      return 0;
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

class Layout {
 public:
  Layout(const nvtxPayloadSchemaAttr_t& attributes,
         const Schema* (*nested)(uint32_t domain, uint64_t id), uint32_t domain, Schema* schema)
      : attributes_(attributes), nested_(nested), domain_(domain), schema_(schema) {
    packed_ = (attributes.fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT) != 0
                  ? static_cast<uint32_t>(attributes.packAlign)
                  : 0;
    dynamic_ = attributes.type == NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC;
    schema->is_union = attributes.type == NVTX_PAYLOAD_SCHEMA_TYPE_UNION ||
                       attributes.type == NVTX_PAYLOAD_SCHEMA_TYPE_UNION_WITH_INTERNAL_SELECTOR;
  }

  void Run() {
    for (size_t i = 0; i < attributes_.numEntries; ++i) {
      if (i == kMaxEntries) {
        schema_->partial = true;
        break;
      }
      Entry(static_cast<uint32_t>(i));
    }
    AddEnumNames();
    const bool sized = (attributes_.fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE) != 0;
    schema_->static_bytes =
        sized && !dynamic_ ? static_cast<uint32_t>(attributes_.payloadStaticSize) : Bytes();
    ResolveReferences();
    KeepInside();
    schema_->plain = IsPlain(*schema_);
  }

 private:
  // Where an entry of this alignment lies; NVTX takes offset 0 of later entries as "in order".
  uint32_t Place(const nvtxPayloadSchemaEntry_t& entry, uint32_t bytes, uint32_t alignment) {
    if (packed_ != 0 && packed_ < alignment) alignment = packed_;
    if (!known_) return kFollows;
    if (schema_->is_union) {
      end_ = bytes > end_ ? bytes : end_;
      return static_cast<uint32_t>(entry.offset);
    }
    const bool first = &entry == attributes_.entries;
    auto offset = static_cast<uint32_t>(entry.offset);
    if (entry.offset == 0 && !first) {
      lost_ |= gap_;
      offset = (end_ + alignment - 1) / alignment * alignment;
    }
    end_ = offset + bytes;
    widest_ = alignment > widest_ ? alignment : widest_;
    return offset;
  }
  // Those of a dynamic schema end where they end.
  uint32_t Bytes() const { return dynamic_ ? end_ : (end_ + widest_ - 1) / widest_ * widest_; }

  void Entry(uint32_t i) {
    const nvtxPayloadSchemaEntry_t& entry = attributes_.entries[i];
    char fallback[32];
    snprintf(fallback, sizeof(fallback), "field%u", i);
    name_ = InternText(entry.name != nullptr ? entry.name : fallback);
    entry_ = i;
    const uint32_t fields = schema_->field_count;
    const uint32_t parts = schema_->part_count;
    const Number number = NumberOf(entry.type);
    const Schema* inner = number.bytes == 0 ? nested_(domain_, entry.type) : nullptr;
    bool taken;
    if (entry.type == NVTX_PAYLOAD_ENTRY_TYPE_UNION_SELECTOR) {
      taken = Value(entry, {4, Source::kUint32}, false);
      selector_ = i;
    } else if (UnitOfText(entry.type) != 0 ||
               (entry.type == NVTX_PAYLOAD_ENTRY_TYPE_CHAR && (entry.flags & kArray) != 0)) {
      taken = Text(entry);
    } else if (number.bytes != 0) {
      taken = Value(entry, number, true);
    } else if (inner != nullptr && inner->enum_bytes != 0) {
      taken = Value(entry, {inner->enum_bytes, IntegerOf(inner->enum_bytes)}, true);
      if (schema_->field_count != fields) enumerations_[fields] = inner->enumeration;
    } else {
      taken = inner != nullptr && Structure(entry, *inner);
    }
    if (!taken) {
      schema_->partial = true;
      if (fields == schema_->field_count && parts == schema_->part_count) {
        if ((entry.flags & kWhere) == 0) gap_ = true;
        if (known_) Place(entry, 8, 8);
      }
    }
    if (schema_->field_count == fields + 1 && schema_->part_count == parts) {
      const Field& field = schema_->fields[fields];
      places_[i] = {Reference::kAt, field.source, field.offset};
      TakeRole(entry, TypeOf(field.source), static_cast<int32_t>(fields));
    } else if (schema_->part_count == parts + 1) {
      places_[i] = {Reference::kPart, Source::kUint64, parts};
    }
  }

  // After all entries, so that no room is taken from them: "operation.name" beside "operation".
  void AddEnumNames() {
    const uint32_t count = schema_->field_count;
    for (uint32_t i = 0; i < count && schema_->field_count < kMaxSchemaFields; ++i) {
      if (enumerations_[i] == 0) continue;
      const Field& field = schema_->fields[i];
      schema_->fields[schema_->field_count++] = {InternJoined(field.name, '.', InternText("name")),
                                                 field.offset, field.bytes, Source::kEnumName,
                                                 enumerations_[i]};
    }
  }

  // What of the event itself the entry, which became `field`, tells.
  void TakeRole(const nvtxPayloadSchemaEntry_t& entry, FieldType type, int32_t field) {
    constexpr uint64_t kEvent = 7 << 12;
    if (type == FieldType::kString) {
      if ((entry.flags & NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE) != 0) {
        schema_->message_field = field;
      }
    } else if (entry.type == NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY) {
      schema_->category_field = field;
    } else if ((entry.flags & NVTX_PAYLOAD_ENTRY_FLAG_TIMESTAMP) != 0 &&
               type != FieldType::kDouble) {
      const bool is_end = (entry.flags & kEvent) == NVTX_PAYLOAD_ENTRY_FLAG_RANGE_END;
      (is_end || schema_->begin_field >= 0 ? schema_->end_field : schema_->begin_field) = field;
      if (const uint64_t clock = ClockOf(entry.semantics); clock != 0) schema_->clock = clock;
    }
  }

  bool AddField(uint32_t name, uint32_t offset, uint32_t bytes, Source source) {
    lost_ |= schema_->field_count == kMaxSchemaFields;
    if (lost_) return false;
    schema_->fields[schema_->field_count++] = {name, offset, bytes, source};
    return true;
  }

  bool AddPart(const Part& part) {
    lost_ |= schema_->part_count == kMaxSchemaParts || part.stride == 0;
    if (lost_) return false;
    schema_->parts[schema_->part_count++] = part;
    return true;
  }

  // The entry's shape and place, for elements of this size.
  Part PartOf(const nvtxPayloadSchemaEntry_t& entry, uint32_t bytes, uint32_t stride,
              Source source) const {
    Part part;
    memset(static_cast<void*>(&part), 0, sizeof(part));
    part.name = name_;
    part.bytes = bytes;
    part.stride = stride;
    part.source = source;
    const auto detail = static_cast<uint32_t>(entry.arrayOrUnionDetail);
    switch (entry.flags & kArray) {
      case NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE:
        part.shape = Part::kFixed;
        part.count = detail;
        break;
      case NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED:
        part.shape = Part::kTerminated;
        break;
      case NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX:
        part.shape = Part::kCounted;
        part.length = {Reference::kEntry, Source::kUint64, detail};
        break;
      case NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_PAYLOAD_INDEX:
        part.shape = Part::kCounted;
        part.length = {Reference::kPayload, Source::kUint64, detail};
        break;
      default:
        break;
    }
    part.where = (entry.flags & NVTX_PAYLOAD_ENTRY_FLAG_POINTER) != 0            ? Part::kAddress
                 : (entry.flags & NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_BASE) != 0 ? Part::kFromBase
                 : (entry.flags & NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_HERE) != 0 ? Part::kFromHere
                                                                                 : Part::kHere;
    part.trusted = (entry.flags & NVTX_PAYLOAD_ENTRY_FLAG_DEEP_COPY) != 0 ||
                   (attributes_.flags & NVTX_PAYLOAD_SCHEMA_FLAG_DEEP_COPY) != 0;
    if (schema_->is_union) {
      part.member = entry_;
      part.selector = {Reference::kEntry, Source::kUint64, kMaxEntries};
    }
    return part;
  }

  // Bytes that the entry itself takes. What comes after an array of unknown length follows it.
  uint32_t PlacePart(const nvtxPayloadSchemaEntry_t& entry, const Part& part, uint32_t alignment) {
    if (part.where != Part::kHere) return Place(entry, 8, 8);
    const bool counted = part.shape == Part::kCounted || part.shape == Part::kTerminated;
    const uint32_t offset =
        Place(entry, counted ? 0 : part.stride * (part.shape == Part::kFixed ? part.count : 1),
              alignment);
    if (counted) known_ = false;
    return offset;
  }

  bool Value(const nvtxPayloadSchemaEntry_t& entry, const Number& number, bool may_be_part) {
    if ((entry.flags & (kArray | kWhere)) == 0 && known_ && !(schema_->is_union && may_be_part)) {
      return AddField(name_, Place(entry, number.bytes, number.bytes), number.bytes, number.source);
    }
    Part part = PartOf(entry, number.bytes, number.bytes, number.source);
    const bool counted = part.shape == Part::kCounted || part.shape == Part::kTerminated;
    if (counted && part.where == Part::kHere && !dynamic_) return false;
    part.offset = PlacePart(entry, part, number.bytes);
    return AddPart(part);
  }

  bool Text(const nvtxPayloadSchemaEntry_t& entry) {
    const uint32_t unit = UnitOfText(entry.type);
    const uint64_t array = entry.flags & kArray;
    const bool direct = (entry.flags & kWhere) == 0;
    const auto length = static_cast<uint32_t>(entry.arrayOrUnionDetail);
    const bool is_address = (array == 0 && length == 0 && unit != 0) ||
                            (array == NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED &&
                             (entry.flags & NVTX_PAYLOAD_ENTRY_FLAG_POINTER) != 0);
    if (is_address) {
      const Source source = unit == 2   ? Source::kText16Address
                            : unit == 4 ? Source::kText32Address
                                        : Source::kTextAddress;
      if (known_ && !schema_->is_union) return AddField(name_, Place(entry, 8, 8), 8, source);
      Part part = PartOf(entry, 8, 8, source);
      part.shape = Part::kOne;
      part.where = Part::kHere;
      part.offset = Place(entry, 8, 8);
      return AddPart(part);
    }
    if (unit > 1) return false;
    const bool fixed = array == NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE || array == 0;
    if (fixed && direct && known_ && !schema_->is_union) {
      return AddField(name_, Place(entry, length, 1), length, Source::kTextInPlace);
    }
    Part part = PartOf(entry, 1, 1, Source::kTextInPlace);
    if (fixed) {
      part.shape = Part::kFixed;
      part.count = length;
    } else if (direct && !dynamic_) {
      return false;
    }
    part.offset = PlacePart(entry, part, 1);
    return AddPart(part);
  }

  // A schema within the schema: its fields, under the names of both; of an array, each field's
  // values one after the other.
  bool Structure(const nvtxPayloadSchemaEntry_t& entry, const Schema& inner) {
    if (!known_ || inner.static_bytes == 0) return false;
    const uint32_t outer_name = name_;
    const bool single = (entry.flags & (kArray | kWhere)) == 0;
    Part whole = PartOf(entry, inner.static_bytes, inner.static_bytes, Source::kUint64);
    const bool counted = whole.shape == Part::kCounted || whole.shape == Part::kTerminated;
    if (whole.shape == Part::kTerminated || (counted && whole.where == Part::kHere && !dynamic_)) {
      return false;
    }
    const uint32_t offset = PlacePart(entry, whole, 8);
    bool all = !inner.partial;
    for (uint32_t k = 0; k < inner.field_count; ++k) {
      const Field& field = inner.fields[k];
      if (field.source == Source::kEnumName) continue;
      const uint32_t name = InternJoined(outer_name, '.', field.name);
      if (single && !schema_->is_union) {
        const uint32_t at = schema_->field_count;
        all &= AddField(name, offset + field.offset, field.bytes, field.source);
        if (schema_->field_count != at) enumerations_[at] = EnumerationOf(inner, field);
        continue;
      }
      // An element's fields lie within it: only embedded ones can be told apart by their offsets.
      if (whole.where != Part::kHere || (field.source == Source::kTextInPlace && !single)) {
        all = false;
        continue;
      }
      Part part = whole;
      part.name = name;
      part.offset = offset + field.offset;
      part.bytes = field.bytes;
      part.source = field.source;
      if (field.source == Source::kTextInPlace) {
        part.shape = Part::kFixed;
        part.count = field.bytes;
        part.bytes = part.stride = 1;
      }
      all &= AddPart(part);
    }
    const uint32_t first = schema_->part_count;
    for (uint32_t k = 0; k < inner.part_count; ++k) {
      Part part = inner.parts[k];
      // Offsets from the base are the inner one's, and one selector chooses at a time.
      if (!single || part.offset == kFollows || part.where == Part::kFromBase ||
          (schema_->is_union && part.selector.kind != Reference::kNone)) {
        all = false;
        break;
      }
      part.name = InternJoined(outer_name, '.', part.name);
      part.offset += offset;
      for (Reference* reference : {&part.length, &part.selector}) {
        if (reference->kind == Reference::kAt) reference->at += offset;
        if (reference->kind == Reference::kPart) reference->at += first;
      }
      if (part.selector.kind == Reference::kEntry) {  // chosen from outside the union
        part.selector.at = static_cast<uint32_t>(entry.arrayOrUnionDetail);
      }
      if (schema_->is_union) {
        part.member = entry_;
        part.selector = {Reference::kEntry, Source::kUint64, kMaxEntries};
      }
      if (!AddPart(part)) {
        all = false;
        break;
      }
    }
    if (counted && whole.where == Part::kHere) lost_ = true;  // parts that follow need its end
    return all;
  }

  // Whose value the field of the schema is, 0: of none.
  static uint32_t EnumerationOf(const Schema& schema, const Field& value) {
    for (uint32_t i = 0; i < schema.field_count; ++i) {
      const Field& field = schema.fields[i];
      if (field.source == Source::kEnumName && field.offset == value.offset) {
        return field.enumeration;
      }
    }
    return 0;
  }

  // Entries that lengths and selectors name become places. What has none cannot be recorded.
  void ResolveReferences() {
    const bool internal = attributes_.type == NVTX_PAYLOAD_SCHEMA_TYPE_UNION_WITH_INTERNAL_SELECTOR;
    for (uint32_t i = 0; i < schema_->part_count; ++i) {
      Part& part = schema_->parts[i];
      if (schema_->is_union && internal) part.selector.at = selector_;
      for (Reference* reference : {&part.length, &part.selector}) {
        const bool from_outside = reference == &part.selector && schema_->is_union && !internal;
        if (reference->kind != Reference::kEntry || from_outside) continue;
        const Reference place = reference->at < kMaxEntries ? places_[reference->at] : Reference{};
        const bool usable =
            (place.kind == Reference::kAt && TypeOf(place.source) != FieldType::kString) ||
            (place.kind == Reference::kPart && place.at < i);
        if (!usable) {  // this one and those after it, whose places it may tell
          schema_->part_count = i;
          schema_->partial = true;
          return;
        }
        *reference = place;
      }
    }
  }

  // Nothing is read past what every payload has.
  void KeepInside() {
    for (uint32_t i = 0; i < schema_->field_count; ++i) {
      const Field& field = schema_->fields[i];
      if (uint64_t{field.offset} + field.bytes <= schema_->static_bytes) continue;
      schema_->field_count = i;
      schema_->partial = true;
    }
    const auto inside = [this](const Reference& reference) {
      return reference.kind != Reference::kAt ||
             uint64_t{reference.at} + WidthOf(reference.source) <= schema_->static_bytes;
    };
    for (uint32_t i = 0; i < schema_->part_count; ++i) {
      if (inside(schema_->parts[i].length) && inside(schema_->parts[i].selector)) continue;
      schema_->part_count = i;
      schema_->partial = true;
    }
    for (int32_t* field : {&schema_->message_field, &schema_->category_field, &schema_->begin_field,
                           &schema_->end_field}) {
      if (*field >= static_cast<int32_t>(schema_->field_count)) *field = -1;
    }
  }

  static uint32_t WidthOf(Source source) {
    switch (source) {
      case Source::kUint8:
      case Source::kInt8:
        return 1;
      case Source::kUint16:
      case Source::kInt16:
      case Source::kFloat16:
      case Source::kBfloat16:
        return 2;
      case Source::kUint32:
      case Source::kInt32:
      case Source::kFloat32:
        return 4;
      case Source::kInt128:
      case Source::kUint128:
      case Source::kLongDouble:
        return 16;
      default:
        return 8;
    }
  }

  const nvtxPayloadSchemaAttr_t& attributes_;
  const Schema* (*nested_)(uint32_t domain, uint64_t id);
  uint32_t domain_;
  Schema* schema_;
  uint32_t packed_ = 0;
  bool dynamic_ = false;
  bool known_ = true;  // where the next entry lies
  bool gap_ = false;   // an entry before it has a size that is not known
  bool lost_ = false;  // nothing more can be placed
  uint32_t end_ = 0;
  uint32_t widest_ = 1;
  uint32_t name_ = 0;   // of the entry at hand
  uint32_t entry_ = 0;  // its index
  uint32_t selector_ = kMaxEntries;
  Reference places_[kMaxEntries] = {};
  uint32_t enumerations_[kMaxSchemaFields] = {};  // by field
};

}  // namespace

void LayOut(const nvtxPayloadSchemaAttr_t& attributes,
            const Schema* (*nested)(uint32_t domain, uint64_t id), uint32_t domain,
            Schema* schema) {
  schema->message_field = schema->category_field = -1;
  schema->begin_field = schema->end_field = -1;
  if (attributes.entries == nullptr ||
      attributes.type - NVTX_PAYLOAD_SCHEMA_TYPE_STATIC >
          NVTX_PAYLOAD_SCHEMA_TYPE_UNION_WITH_INTERNAL_SELECTOR - NVTX_PAYLOAD_SCHEMA_TYPE_STATIC) {
    return;
  }
  Layout(attributes, nested, domain, schema).Run();
}

}  // namespace poolscope::agent
