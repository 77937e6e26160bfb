#include "agent/registry.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <atomic>

#include "agent/clocks.h"
#include "agent/enumerations.h"
#include "agent/process.h"
#include "agent/text.h"
#include "trace/locked.h"

namespace poolscope::agent {
namespace {

constexpr uint32_t kMaxSchemas = 1024;
constexpr uint32_t kMaxCounters = 2048;
constexpr uint32_t kMaxScopes = 1024;
constexpr uint64_t kFirstDynamicId = uint64_t{1} << 32;  // NVTX: ids under it are the job's own

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

// Ids that jobs choose themselves, per domain. Added to under the lock, read without.
class ChosenIds {
 public:
  bool Add(uint32_t domain, uint64_t id, uint32_t index) {
    const uint64_t key = Key(domain, id);
    for (uint32_t i = 0; i < kSlots; ++i) {
      Slot& slot = slots_[(Hash(key) + i) & (kSlots - 1)];
      const uint64_t held = slot.key.load(std::memory_order_relaxed);
      if (held != 0 && held != key) continue;
      slot.index.store(index, std::memory_order_relaxed);
      slot.key.store(key, std::memory_order_release);
      return true;
    }
    return false;
  }

  // ~0: unknown.
  uint32_t Find(uint32_t domain, uint64_t id) const {
    const uint64_t key = Key(domain, id);
    for (uint32_t i = 0; i < kSlots; ++i) {
      const Slot& slot = slots_[(Hash(key) + i) & (kSlots - 1)];
      const uint64_t held = slot.key.load(std::memory_order_acquire);
      if (held == key) return slot.index.load(std::memory_order_relaxed);
      if (held == 0) break;
    }
    return ~0u;
  }

 private:
  static constexpr uint32_t kSlots = 4096;
  struct Slot {
    std::atomic<uint64_t> key{0};
    std::atomic<uint32_t> index{0};
  };
  static uint64_t Key(uint32_t domain, uint64_t id) { return uint64_t{domain} << 32 | id; }
  static uint32_t Hash(uint64_t key) {
    return static_cast<uint32_t>((key * 0x9e3779b97f4a7c15) >> 40);
  }
  Slot slots_[kSlots];
};

// Constant-initialised, zero pages until used; written under the lock, then counted.
uint32_t domain_names[kMaxDomains];
uint32_t domain_count;
Schema schemas[kMaxSchemas];
uint32_t schema_base_names[kMaxSchemas];
std::atomic<uint32_t> schema_count{0};
constinit ChosenIds chosen_schemas;
Counter counters[kMaxCounters];
std::atomic<uint32_t> counter_count{0};
constinit ChosenIds chosen_counters;
uint32_t scopes[kMaxScopes];  // string ids
std::atomic<uint32_t> scope_count{0};
constinit ChosenIds chosen_scopes;

uint64_t IdOf(ChosenIds& chosen, uint32_t domain, uint64_t wanted, uint32_t index) {
  const bool is_chosen = wanted >= NVTX_PAYLOAD_SCHEMA_ID_STATIC_START && wanted < kFirstDynamicId;
  if (!is_chosen) return kFirstDynamicId + index;
  return chosen.Add(domain, wanted, index) ? wanted : 0;
}

bool SameLayout(const Schema& a, const Schema& b) {
  return a.field_count == b.field_count && a.static_bytes == b.static_bytes &&
         a.message_field == b.message_field && a.category_field == b.category_field &&
         a.begin_field == b.begin_field && a.end_field == b.end_field && a.clock == b.clock &&
         a.partial == b.partial && a.enum_bytes == b.enum_bytes && a.enumeration == b.enumeration &&
         a.part_count == b.part_count && std::equal(a.fields, a.fields + a.field_count, b.fields) &&
         std::equal(a.parts, a.parts + a.part_count, b.parts);
}

// A group of its own for each array and member of a union.
bool DefineParts(Schema* schema) {
  for (uint32_t i = 0; i < schema->part_count; ++i) {
    const Part& part = schema->parts[i];
    const bool repeats = part.shape != Part::kOne && part.source != Source::kTextInPlace;
    const SchemaFieldDef field = {part.name, static_cast<uint16_t>(TypeOf(part.source)),
                                  static_cast<uint16_t>(repeats ? 1 : 0)};
    schema->part_names[i] = InternJoined(schema->name, '.', part.name);
    if (!session.Define(DefinitionKind::kSchema, schema->part_names[i], &field, sizeof(field), 0)) {
      return false;
    }
  }
  return true;
}

// The schema's place in the table; a new one is told to the session. ~0: too many.
uint32_t PlaceSchema(uint32_t base_name, Schema* schema) {
  const uint32_t count = schema_count.load(std::memory_order_relaxed);
  uint32_t namesakes = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (schema_base_names[i] != base_name) continue;
    if (SameLayout(schemas[i], *schema)) return i;
    ++namesakes;
  }
  if (count == kMaxSchemas) return ~0u;
  schema->name = base_name;
  if (namesakes != 0) {  // another layout of the same name
    char name[kMaxStringBytes + 16];
    const std::string_view base = session.Text(base_name);
    const int bytes = snprintf(name, sizeof(name), "%.*s#%u", static_cast<int>(base.size()),
                               base.data(), namesakes + 1);
    schema->name = InternBytes(name, static_cast<size_t>(bytes));
  }
  if (schema->field_count != 0 && schema->enum_bytes == 0) {
    SchemaFieldDef fields[kMaxSchemaFields];
    for (uint32_t i = 0; i < schema->field_count; ++i) {
      fields[i] = {schema->fields[i].name, static_cast<uint16_t>(TypeOf(schema->fields[i].source)),
                   0};
    }
    if (!session.Define(DefinitionKind::kSchema, schema->name, fields,
                        schema->field_count * uint32_t{sizeof(SchemaFieldDef)}, 0)) {
      return ~0u;
    }
  }
  if (!DefineParts(schema)) return ~0u;
  schemas[count] = *schema;
  schema_base_names[count] = base_name;
  schema_count.store(count + 1, std::memory_order_release);
  return count;
}

uint32_t NameOr(const char* name, const char* otherwise) {
  return InternText(name != nullptr && name[0] != '\0' ? name : otherwise);
}

void DefineCounter(uint32_t domain, uint32_t name, bool is_float) {
  const uint32_t payload[2] = {domain, is_float ? 1u : 0u};
  session.Define(DefinitionKind::kCounter, name, payload, sizeof(payload), domain);
}

// The values of one sample and their names; count 0 where they are no numbers.
void LayOutCounter(const nvtxCounterAttr_t& attributes, uint32_t name, Counter* counter) {
  Source source;
  const Schema* schema = nullptr;
  if (const uint32_t size = NumberSource(attributes.schemaId, &source); size != 0) {
    counter->count = 1;
    counter->bytes = size;
    counter->fields[0] = {name, 0, size, source};
  } else if ((schema = FindSchema(counter->domain, attributes.schemaId)) != nullptr) {
    counter->bytes = schema->static_bytes;
    if (counter->clock == 0) counter->clock = schema->clock;
    for (uint32_t i = 0; i < schema->field_count; ++i) {
      const Field& field = schema->fields[i];
      if (static_cast<int32_t>(i) == schema->begin_field) {
        counter->time = field;
      } else if (TypeOf(field.source) != FieldType::kString) {
        Field& value = counter->fields[counter->count++];
        value = field;
        value.name = InternJoined(name, '/', field.name);
      }
    }
  }
  for (uint32_t i = 0; i < counter->count; ++i) {
    const Field& field = counter->fields[i];
    DefineCounter(counter->domain, field.name, TypeOf(field.source) == FieldType::kDouble);
  }
  counter->is_float =
      counter->count != 0 && TypeOf(counter->fields[0].source) == FieldType::kDouble;
}

bool SameCounter(const Counter& a, const Counter& b) {
  return a.domain == b.domain && a.count == b.count && a.bytes == b.bytes && a.clock == b.clock &&
         a.time == b.time && std::equal(a.fields, a.fields + a.count, b.fields);
}

}  // namespace

uint32_t RegisterDomain(uint32_t name) {
  const Locked lock(&mutex);
  for (uint32_t i = 1; i <= domain_count; ++i) {
    if (domain_names[i] == name) return i;
  }
  if (domain_count + 1 == kMaxDomains ||
      !session.Define(DefinitionKind::kDomain, domain_count + 1, &name, sizeof(name), 0)) {
    return 0;
  }
  domain_names[++domain_count] = name;
  return domain_count;
}

uint32_t NameOfDomain(uint32_t index) { return domain_names[index]; }

uint64_t RegisterSchema(uint32_t domain, const nvtxPayloadSchemaAttr_t& attributes) {
  const bool named = (attributes.fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME) != 0;
  const uint32_t name = NameOr(named ? attributes.name : nullptr, "(unnamed schema)");
  Schema schema;
  memset(static_cast<void*>(&schema), 0, sizeof(schema));
  LayOut(attributes, FindSchema, domain, &schema);
  const bool chosen = (attributes.fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID) != 0;
  const Locked lock(&mutex);
  const uint32_t index = PlaceSchema(name, &schema);
  return index == ~0u ? 0 : IdOf(chosen_schemas, domain, chosen ? attributes.schemaId : 0, index);
}

uint64_t RegisterEnum(uint32_t domain, const nvtxPayloadEnumAttr_t& attributes) {
  const bool named = (attributes.fieldMask & NVTX_PAYLOAD_ENUM_ATTR_FIELD_NAME) != 0;
  Schema schema;
  memset(static_cast<void*>(&schema), 0, sizeof(schema));
  const bool sized = (attributes.fieldMask & NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE) != 0;
  schema.message_field = schema.category_field = schema.begin_field = schema.end_field = -1;
  const size_t bytes = sized ? attributes.sizeOfEnum : sizeof(int);
  if (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) {  // others are no integers
    schema.enum_bytes = static_cast<uint32_t>(bytes);
  }
  const uint32_t name = NameOr(named ? attributes.name : nullptr, "(unnamed enum)");
  const bool chosen = (attributes.fieldMask & NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID) != 0;
  constexpr uint64_t kListed =
      NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES;
  const Locked lock(&mutex);
  if (schema.enum_bytes != 0 && (attributes.fieldMask & kListed) == kListed) {
    schema.enumeration = RememberEnumeration(attributes.entries, attributes.numEntries);
  }
  const uint32_t index = PlaceSchema(name, &schema);
  return index == ~0u ? 0 : IdOf(chosen_schemas, domain, chosen ? attributes.schemaId : 0, index);
}

const Schema* FindSchema(uint32_t domain, uint64_t id) {
  if (id < NVTX_PAYLOAD_SCHEMA_ID_STATIC_START) return nullptr;
  const uint64_t index =
      id >= kFirstDynamicId ? id - kFirstDynamicId : chosen_schemas.Find(domain, id);
  return index < schema_count.load(std::memory_order_acquire) ? &schemas[index] : nullptr;
}

uint64_t RegisterCounter(uint32_t domain, const nvtxCounterAttr_t& attributes) {
  const uint32_t name = InternJoined(FindScope(domain, attributes.scopeId), '/',
                                     NameOr(attributes.name, "(unnamed counter)"));
  Counter counter;
  memset(static_cast<void*>(&counter), 0, sizeof(counter));
  counter.domain = domain;
  counter.clock = ClockOf(attributes.semantics);
  LayOutCounter(attributes, name, &counter);
  const Locked lock(&mutex);
  const uint32_t count = counter_count.load(std::memory_order_relaxed);
  uint32_t index = 0;
  while (index < count && !SameCounter(counters[index], counter)) ++index;
  if (index == kMaxCounters) return 0;
  if (index == count) {
    counters[count] = counter;
    counter_count.store(count + 1, std::memory_order_release);
  }
  return IdOf(chosen_counters, domain, attributes.counterId, index);
}

const Counter* FindCounter(uint32_t domain, uint64_t id) {
  const uint64_t index =
      id >= kFirstDynamicId ? id - kFirstDynamicId : chosen_counters.Find(domain, id);
  return index < counter_count.load(std::memory_order_acquire) ? &counters[index] : nullptr;
}

uint64_t RegisterScope(uint32_t domain, const nvtxScopeAttr_t& attributes) {
  const uint32_t parent = FindScope(domain, attributes.parentScope);
  const uint32_t path = InternJoined(parent, '/', InternText(attributes.path));
  const Locked lock(&mutex);
  const uint32_t count = scope_count.load(std::memory_order_relaxed);
  uint32_t index = 0;
  while (index < count && scopes[index] != path) ++index;
  if (index == kMaxScopes) return NVTX_SCOPE_NONE;
  if (index == count) {
    scopes[count] = path;
    scope_count.store(count + 1, std::memory_order_release);
  }
  return IdOf(chosen_scopes, domain, attributes.scopeId, index);
}

uint32_t FindScope(uint32_t domain, uint64_t id) {
  if (id < NVTX_SCOPE_ID_STATIC_START) return 0;
  const uint64_t index =
      id >= kFirstDynamicId ? id - kFirstDynamicId : chosen_scopes.Find(domain, id);
  return index < scope_count.load(std::memory_order_acquire) ? scopes[index] : 0;
}

void LockRegistry() { pthread_mutex_lock(&mutex); }
void UnlockRegistry() { pthread_mutex_unlock(&mutex); }
void ResetRegistryLock() { mutex = PTHREAD_MUTEX_INITIALIZER; }

}  // namespace poolscope::agent
