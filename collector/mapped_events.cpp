#include "collector/mapped_events.h"

#include <bit>
#include <vector>

namespace poolscope {
namespace {

struct SchemaText {
  std::string_view name;
  std::vector<Store::SchemaField> fields;
};

// The payload of annotate.h for a category; no name where it has none.
SchemaText SchemaOf(Category category) {
  switch (category) {
    case Category::kTransfer:
    case Category::kDiscard:
      return {kTransferSchema,
              {{"stage", 'u'},
               {"source", 'u'},
               {"destination", 'u'},
               {"sequence", 'u'},
               {"version", 'u'},
               {"applied_version", 'u'},
               {"raw_bytes", 'u'},
               {"wire_bytes", 'u'},
               {"step", 'u'},
               {"micro_batch", 'u'},
               {"codec", 's'}}};
    case Category::kWork:
      return {
          kWorkSchema,
          {{"step", 'u'}, {"micro_batch", 'u'}, {"version", 'u'}, {"scope", 'u'}, {"cpu_ns", 'u'}}};
    case Category::kWaitLink:
      return {kWaitSchema, {{"source", 'u'}, {"sequence", 'u'}}};
    case Category::kStep:
      return {kStepSchema,
              {{"step", 'u'},
               {"version", 'u'},
               {"tokens", 'u'},
               {"micro_batches", 'u'},
               {"loss", 'd'}}};
    default:
      return {};
  }
}

std::vector<uint64_t> Fields(const Activity& a) {
  switch (a.category) {
    case Category::kTransfer:
    case Category::kDiscard:
      return {static_cast<uint64_t>(a.stage),
              a.source,
              a.destination,
              a.sequence,
              a.version,
              a.applied_version,
              a.raw_bytes,
              a.wire_bytes,
              a.step,
              a.micro_batch,
              0};
    case Category::kWork:
      return {a.step, a.micro_batch, a.version, kNoValue, kNoValue};
    case Category::kWaitLink:
      return {a.source, a.sequence};
    case Category::kStep:
      return {a.step, a.version, a.tokens, a.micro_batches, std::bit_cast<uint64_t>(a.value)};
    default:
      return {};
  }
}

}  // namespace

Result<uint32_t> MappedEvents::Schema(Store& store, Category category) {
  const auto [found, fresh] = schemas_.try_emplace(category);
  if (!fresh) return found->second;
  const SchemaText text = SchemaOf(category);
  if (text.name.empty()) return 0u;
  auto id = store.Intern(text.name);
  if (!id.ok()) return id;
  if (auto put = store.PutSchema(*id, text.fields); !put.ok()) return put.error();
  found->second = *id;
  return *id;
}

Status MappedEvents::Write(Store& store, const Event& from, const Activity& activity,
                           const std::string& link, EventBatch& batch) {
  if (origin_ == 0) {
    auto id = store.Intern(kMappedSchema);
    if (!id.ok()) return id.error();
    if (auto put = store.PutSchema(*id, {{"domain", 's'}, {"name", 's'}}); !put.ok()) return put;
    origin_ = *id;
  }
  const auto schema = Schema(store, activity.category);
  if (!schema.ok()) return schema.error();
  const auto domain = store.Intern(kPoolscopeDomain);
  if (!domain.ok()) return domain.error();
  Event event;
  event.start_ns = from.start_ns;
  event.duration_ns = from.duration_ns;
  event.flags = static_cast<uint8_t>(from.flags & (kEventStartEnd | kEventOpenAtDeath));
  if (!activity.on_thread) event.flags |= kEventStartEnd;
  event.depth = from.depth;
  event.domain = *domain;
  event.category = static_cast<uint32_t>(activity.category);
  event.name = from.name;
  if (!link.empty()) {
    const auto name = store.Intern(link);
    if (!name.ok()) return name.error();
    event.name = *name;
  }
  if (activity.category == Category::kStep || activity.category == Category::kDiscard) {
    event.kind = EventKind::kMark;
    event.start_ns = from.end_ns();
    event.duration_ns = 0;
    event.flags = 0;
  }
  event.payload_offset = static_cast<uint32_t>(batch.words.size());
  const auto add = [&](uint32_t id, const std::vector<uint64_t>& values) {
    batch.words.push_back(id | uint64_t{values.size()} << 32);
    batch.words.insert(batch.words.end(), values.begin(), values.end());
  };
  if (*schema != 0) add(*schema, Fields(activity));
  add(origin_, {from.domain, from.name});
  event.payload_words = static_cast<uint16_t>(batch.words.size() - event.payload_offset);
  batch.events.push_back(event);
  return {};
}

}  // namespace poolscope
