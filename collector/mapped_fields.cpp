#include "collector/mapped_fields.h"

#include <bit>
#include <cmath>
#include <optional>

namespace poolscope {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 50;

// The field of that name in the first group that has one, as a double or an integer.
struct Found {
  uint64_t bits = 0;
  bool is_double = false;
};
std::optional<Found> Find(const std::string& name, const Carried& carried) {
  if (name == "value") return Found{carried.value, carried.value_is_float};
  size_t at = 0;
  while (at < carried.payload.size()) {
    const auto schema = carried.known.schemas.find(static_cast<uint32_t>(carried.payload[at]));
    const size_t count = carried.payload[at] >> 32;
    for (size_t i = 0; schema != carried.known.schemas.end() && i < count; ++i) {
      if (i >= schema->second.size()) break;
      const SchemaFieldDef& field = schema->second[i];
      if (carried.known.strings[field.name] != name) continue;
      if (field.type == static_cast<uint16_t>(FieldType::kString)) return std::nullopt;
      return Found{carried.payload[at + 1 + i],
                   field.type == static_cast<uint16_t>(FieldType::kDouble)};
    }
    at += 1 + count;
  }
  return std::nullopt;
}

std::optional<double> AsDouble(const Mapping::Value& value, const Carried& carried) {
  if (value.constant.has_value()) return value.constant;
  const auto found = Find(value.field, carried);
  if (!found.has_value()) return std::nullopt;
  return found->is_double ? std::bit_cast<double>(found->bits)
                          : static_cast<double>(static_cast<int64_t>(found->bits));
}

std::optional<uint64_t> AsNumber(const Mapping::Value& value, const Carried& carried) {
  if (value.field.empty() && !value.constant.has_value()) return std::nullopt;
  if (!value.constant.has_value()) {
    const auto found = Find(value.field, carried);
    if (!found.has_value()) return std::nullopt;
    if (!found->is_double) return found->bits;
  }
  const auto number = AsDouble(value, carried);
  if (!number.has_value() || !(*number >= 0) || *number > 9e15) return std::nullopt;
  return static_cast<uint64_t>(*number);
}

}  // namespace

void TakeRuleFields(const Mapping::RangeRule& rule, const Carried& carried, Activity& out) {
  const auto set = [&](Mapping::Field field, uint64_t& to) {
    if (const auto number = AsNumber(rule.value(field), carried)) to = *number;
  };
  using Field = Mapping::Field;
  set(Field::kStep, out.step);
  set(Field::kMicroBatch, out.micro_batch);
  set(Field::kVersion, out.version);
  set(Field::kAppliedVersion, out.applied_version);
  set(Field::kSource, out.source);
  set(Field::kDestination, out.destination);
  set(Field::kSequence, out.sequence);
  set(Field::kTokens, out.tokens);
  set(Field::kMicroBatches, out.micro_batches);
  set(Field::kRawBytes, out.raw_bytes);
  set(Field::kWireBytes, out.wire_bytes);
  if (out.raw_bytes > kMostBytes) out.raw_bytes = 0;
  if (out.wire_bytes > kMostBytes) out.wire_bytes = 0;
  if (rule.category_meant == Category::kStep) {
    const Mapping::Value& loss = rule.value(Field::kLoss);
    out.value = loss.given() ? AsDouble(loss, carried).value_or(NAN) : NAN;
  }
}

}  // namespace poolscope
