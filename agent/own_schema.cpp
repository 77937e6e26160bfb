#include "agent/own_schema.h"

#include <atomic>
#include <iterator>

#include "agent/process.h"
#include "agent/registry.h"
#include "agent/text.h"

namespace poolscope::agent {
namespace {

struct OwnField {
  const char* name;
  FieldType type;
  bool repeats = false;
};
struct OwnLayout {
  const char* name;
  OwnField fields[3];  // a null name: no more
};

// In the order of OwnSchema.
constexpr OwnLayout kLayouts[] = {
    {"nvtx.color", {{"color", FieldType::kUint64}}},
    {"nvtx.object",
     {{"what", FieldType::kString}, {"kind", FieldType::kString}, {"id", FieldType::kUint64}}},
    {"nvtx.sync",
     {{"what", FieldType::kString},
      {"object", FieldType::kUint64},
      {"domain", FieldType::kString}}},
    {"nvtx.scope", {{"scope", FieldType::kString}}},
    {"nvtx.uints", {{"values", FieldType::kUint64, true}}},
    {"nvtx.ints", {{"values", FieldType::kInt64, true}}},
    {"nvtx.doubles", {{"values", FieldType::kDouble, true}}},
    {"nvtx.strings", {{"values", FieldType::kString, true}}},
};

std::atomic<uint32_t> names[std::size(kLayouts)];  // 0: not defined yet

uint32_t DefineOwn(const OwnLayout& layout) {
  const uint32_t name = InternText(layout.name);
  SchemaFieldDef fields[std::size(layout.fields)];
  uint32_t count = 0;
  for (const OwnField& field : layout.fields) {
    if (field.name == nullptr) break;
    fields[count++] = {InternText(field.name), static_cast<uint16_t>(field.type),
                       static_cast<uint16_t>(field.repeats ? 1 : 0)};
  }
  const bool defined =
      name != kOverflowString && session.Define(DefinitionKind::kSchema, name, fields,
                                                count * uint32_t{sizeof(SchemaFieldDef)}, 0);
  return defined ? name : 0;
}

}  // namespace

uint32_t OwnSchemaName(OwnSchema schema) {
  const auto index = static_cast<size_t>(schema);
  uint32_t name = names[index].load(std::memory_order_acquire);
  if (name != 0) [[likely]]
    return name;
  LockRegistry();
  name = names[index].load(std::memory_order_relaxed);
  if (name == 0) {
    name = DefineOwn(kLayouts[index]);
    names[index].store(name, std::memory_order_release);
  }
  UnlockRegistry();
  return name;
}

}  // namespace poolscope::agent
