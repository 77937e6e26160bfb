// The half of SessionDrain that gives names, threads and open ranges their meaning.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "collector/session_drain.h"
#include "collector/symbol.h"

namespace poolscope {
Status SessionDrain::TakeDefinitions(Store& store) {
  if (auto read = reader_.ReadDefinitions(); !read.ok() && !definitions_bad_) {
    definitions_bad_ = true;
    CountUndecodable();
  }
  const SessionDefinitions& known = reader_.definitions();
  if (known.strings.size() != strings_seen_) {
    payload_kinds_.resize(known.strings.size(), PayloadKind::kNone);
    for (; strings_seen_ < known.strings.size(); ++strings_seen_) {
      payload_kinds_[strings_seen_] = PayloadKindOf(known.strings[strings_seen_]);
    }
    for (uint32_t i = 1; i < known.domains.size(); ++i) {
      if (known.strings[known.domains[i]] == kPoolscopeDomain) poolscope_domain_ = i;
    }
  } else if (poolscope_domain_ == kNoDomain) {
    for (uint32_t i = 1; i < known.domains.size(); ++i) {
      if (known.strings[known.domains[i]] == kPoolscopeDomain) poolscope_domain_ = i;
    }
  }
  if (known.schemas.size() != schemas_seen_) {
    schemas_seen_ = known.schemas.size();
    for (const auto& [name, fields] : known.schemas) {
      std::vector<Store::SchemaField> columns;
      std::vector<bool> strings;
      for (const SchemaFieldDef& field : fields) {
        static constexpr char kLetters[] = {'u', 'u', 'i', 'd', 's', 'U', 'U', 'I', 'D', 'S'};
        columns.push_back(
            {known.strings[field.name], kLetters[field.type + (field.repeats == 1 ? 5 : 0)]});
        strings.push_back(field.type == static_cast<uint16_t>(FieldType::kString));
      }
      if (std::find(strings.begin(), strings.end(), true) != strings.end()) {
        string_fields_[name] = strings;
      }
      auto id = StoreString(store, name);
      if (!id.ok()) return id.error();
      if (auto put = store.PutSchema(*id, columns); !put.ok()) return put;
    }
  }
  if (known.categories.size() != categories_seen_) {
    categories_seen_ = known.categories.size();
    for (const auto& [key, text] : known.categories) {
      facts_.SetCategory(known.strings[known.domains[key.first]], key.second, known.strings[text]);
    }
  }
  for (; names_seen_ < known.thread_names.size(); ++names_seen_) {
    const auto& [tid, text] = known.thread_names[names_seen_];
    auto thread = ThreadOf(store, static_cast<uint32_t>(tid));
    if (!thread.ok()) return thread.error();
    if ((*thread)->name == known.strings[text]) continue;
    (*thread)->name = known.strings[text];
    (*thread)->mapped = nullptr;  // its name is made of this one
    if (auto saved = SaveThread(store, static_cast<uint32_t>(tid), **thread); !saved.ok()) {
      return saved;
    }
  }
  for (; resources_seen_ < known.resources.size(); ++resources_seen_) {
    const SessionDefinitions::Resource& resource = known.resources[resources_seen_];
    if (resource.domain >= known.domains.size() ||
        known.strings[known.domains[resource.domain]] != kPoolscopeDomain) {
      continue;
    }
    const int worker = model_.ReadResource(known.strings[resource.text], head().session_id);
    if (worker < 0) continue;
    auto thread = ThreadOf(store, static_cast<uint32_t>(resource.identifier));
    if (!thread.ok()) return thread.error();
    (*thread)->worker = worker;
    if (auto saved = SaveThread(store, static_cast<uint32_t>(resource.identifier), **thread);
        !saved.ok()) {
      return saved;
    }
  }
  return {};
}

Result<uint32_t> SessionDrain::StoreString(Store& store, uint32_t id) {
  if (id == 0) return 0u;
  if (id >= store_strings_.size()) store_strings_.resize(reader_.definitions().strings.size(), 0);
  uint32_t& known = store_strings_[id];
  if (known == 0) {
    auto made = store.Intern(reader_.definitions().strings[id]);
    if (!made.ok()) return made;
    known = *made;
  }
  return known;
}

Result<uint32_t> SessionDrain::StoreSymbol(Store& store, uint32_t id) {
  const auto known = symbols_.find(id);
  if (known != symbols_.end()) return known->second;
  const std::string& given = reader_.definitions().strings[id];
  std::string readable = Demangle(given);
  if (readable.size() > kMaxSymbolsBytes - symbol_bytes_) readable.clear();
  symbol_bytes_ += readable.size();
  auto made = readable.empty() ? StoreString(store, id) : store.Intern(readable);
  if (!made.ok()) return made;
  if (!readable.empty()) {
    if (auto put = store.Put(SymbolRow{*made, given}); !put.ok()) return put.error();
  }
  symbols_.emplace(id, *made);
  return made;
}

Result<SessionDrain::Thread*> SessionDrain::ThreadOf(Store& store, uint32_t tid) {
  if (const auto found = threads_.find(tid); found != threads_.end()) return &found->second;
  Thread& thread = threads_[tid];
  thread.tid = tid;
  if (auto saved = SaveThread(store, tid, thread); !saved.ok()) return saved.error();
  return &thread;
}

// A lane is a thread of the store, beyond those of the system.
Result<SessionDrain::Thread*> SessionDrain::LaneThread(Store& store, uint32_t lane) {
  const uint32_t tid = kFirstLaneTid + lane;
  const auto known = threads_.find(tid);
  if (known != threads_.end() && !known->second.name.empty()) return &known->second;
  const SessionDefinitions& said = reader_.definitions();
  Thread& thread = threads_[tid];
  thread.tid = tid;
  thread.name = said.strings[said.lanes.at(lane).name];
  const Lane as_lane = Lane::Of(said.lanes.at(lane), thread.name);
  thread.communicator = as_lane.communicator;
  facts_.SetLane(tid, as_lane);
  if (auto saved = SaveThread(store, tid, thread); !saved.ok()) return saved.error();
  return &thread;
}

Status SessionDrain::FindWorker(Store& store, uint32_t lane, Thread& thread, Activity& activity) {
  const bool may_be_new = threads_.size() < kMaxLaunchThreads;
  if (facts_.LaneMapped(kFirstLaneTid + lane) || !thread.claims.empty()) {
    // The mapping says whose the lane is, whoever launches on it.
  } else if (activity.launch_tid != 0 && activity.launch_tid < kFirstLaneTid &&
             (may_be_new || threads_.contains(activity.launch_tid))) {
    const auto launcher = ThreadOf(store, activity.launch_tid);
    if (!launcher.ok()) return launcher.error();
    if ((*launcher)->worker >= 0) activity.worker = (*launcher)->worker;
  }
  if (activity.worker < 0) return {};
  if (activity.on_device) {
    model_.TakeDevice(activity.worker, reader_.definitions().lanes.at(lane).device, activity);
  }
  if (thread.worker >= 0) return {};
  thread.worker = activity.worker;
  return SaveThread(store, kFirstLaneTid + lane, thread);
}

// What it is called now; where that cannot be seen (it has ended, or its pids are not ours), what
// it was called when it began to record.
std::string SessionDrain::SystemName(uint32_t tid) const {
  std::string name = SystemThreadName(head(), path(), tid);
  const auto slot =
      std::find_if(slots_.begin(), slots_.end(), [tid](const Slot& s) { return s.tid == tid; });
  return name.empty() && slot != slots_.end() ? slot->name : name;
}

Status SessionDrain::SaveThread(Store& store, uint32_t tid, Thread& thread) {
  if (thread.name.empty() && tid < kFirstLaneTid) thread.name = SystemName(tid);
  if (thread.worker < 0 && thread.claims.empty() && (tid & kMappedTid) == 0) {
    thread.claims = mapping_.MatchWorkers({thread.name, facts_, facts_.LaneOf(tid)});
    const bool of_lanes =
        std::any_of(thread.claims.begin(), thread.claims.end(),
                    [](const Mapping::WorkerMatch& claim) { return claim.rule->of_lanes(); });
    if (of_lanes) facts_.SetLaneMapped(tid);
    if (!thread.claims.empty() && thread.claims.front().rule->period.always()) {
      thread.worker = WorkerOf(thread.claims.front(), tid);
      if (mapping_.ranges_by_thread()) mapped_.clear();
      thread.claims.clear();
    }
  }
  ThreadRow row{0, head().session_id, tid, thread.name, "", -1};
  if (thread.worker >= 0) {
    const RunModel::Worker& worker = model_.workers()[static_cast<size_t>(thread.worker)];
    row.pool = worker.pool;
    row.worker_index = worker.index;
    AddWorker(thread.worker);
  }
  auto id = store.PutThread(row);
  if (!id.ok()) return id.error();
  thread.id = *id;
  return {};
}

int SessionDrain::WorkerOf(const Mapping::WorkerMatch& match, uint32_t tid) {
  const std::string& pool = match.rule->pool;
  int64_t index = match.index;
  if (index < 0) {
    const auto lane = facts_.LaneOf(tid);
    const std::string part = match.rule->per_thread ? fmt::format("thread {}", tid)
                             : lane.has_value() && !match.rule->device.any()
                                 ? fmt::format("device {}", lane->device)
                                 : "process";
    index = facts_.WorkerIndex(pool, part);
    if (index < 0) {
      for (index = 0; model_.FindWorker(pool, index) >= 0;) ++index;
      facts_.SetWorkerIndex(pool, part, index);
    }
  }
  return model_.AddWorker(pool, index, match.rule->role, head().session_id);
}

const SessionDrain::CounterMeaning& SessionDrain::MeaningOf(uint32_t counter) {
  const auto found = counters_.find(counter);
  if (found != counters_.end()) return found->second;
  const std::string_view text = reader_.definitions().strings[counter];
  const SessionDefinitions& known = reader_.definitions();
  const auto counted = known.counters.find(counter);
  const std::string_view domain =
      counted == known.counters.end()
          ? ""
          : std::string_view(known.strings[known.domains[counted->second.domain]]);
  const Mapping::CounterRule* rule = nullptr;
  if (counted == known.counters.end() || counted->second.domain != poolscope_domain_) {
    rule = mapping_.MatchCounter(domain, text);
  }
  const std::string_view name = rule == nullptr ? text : std::string_view(rule->means);
  const std::string_view link = DepthCounterLink(name);
  const CounterMeaning meaning = {link.empty() ? -1 : model_.AddLink(link),
                                  IsOccupancyCounter(name), DeviceCounterOf(domain, text),
                                  rule == nullptr ? "" : rule->means};
  return counters_.emplace(counter, meaning).first->second;
}

std::pair<PayloadKind, std::span<const uint64_t>> SessionDrain::Known(
    std::span<const uint64_t> payload) const {
  for (size_t at = 0; at < payload.size();) {
    const auto schema = static_cast<uint32_t>(payload[at]);
    const size_t count = payload[at] >> 32;
    if (schema < payload_kinds_.size() && payload_kinds_[schema] != PayloadKind::kNone) {
      return {payload_kinds_[schema], payload.subspan(at + 1, count)};
    }
    at += 1 + count;
  }
  return {PayloadKind::kNone, {}};
}

SessionDrain::Meaning& SessionDrain::Mapped(const Thread* thread, uint32_t domain,
                                            uint32_t category, uint32_t name) {
  const bool by_thread = mapping_.ranges_by_thread() && thread != nullptr;
  Meaning& meaning = mapped_[{by_thread ? thread->id : 0, domain, name, category}];
  if (std::exchange(meaning.looked_up, true)) return meaning;
  const SessionDefinitions& known = reader_.definitions();
  const std::string symbol =
      known.strings[known.domains[domain]] == "cuda" ? Demangle(known.strings[name]) : "";
  RangeFacts facts{known.strings[known.domains[domain]],
                   "",
                   symbol.empty() ? known.strings[name] : symbol,
                   "",
                   "",
                   ""};
  if (const auto text = known.categories.find({domain, category}); text != known.categories.end()) {
    facts.category = known.strings[text->second];
  }
  if (by_thread) {
    facts.thread = thread->name;
    facts.communicator = thread->communicator;
    if (thread->worker >= 0) {
      facts.pool = model_.workers()[static_cast<size_t>(thread->worker)].pool;
    }
  }
  meaning.step = mapping_.MatchStep(facts);
  if (const Mapping::RangeRule* rule = mapping_.MatchRange(facts); rule != nullptr) {
    meaning.rule = rule;
    meaning.category = rule->category_meant;
    meaning.stage = rule->stage;
    meaning.link = rule->link.empty() ? -1 : model_.AddLink(rule->link);
  }
  return meaning;
}

bool SessionDrain::Annotate(const Thread* thread, uint32_t domain, uint32_t category, uint32_t name,
                            std::span<const uint64_t> payload, Activity& out, Meaning*& by) {
  const SessionDefinitions& known = reader_.definitions();
  if (domain == poolscope_domain_) {
    if (category < 1 || category > static_cast<uint32_t>(kLastCategory)) return false;
    out.category = static_cast<Category>(category);
    if (NamesLink(out.category)) {
      if (links_.size() <= name) links_.resize(known.strings.size(), -2);
      if (links_[name] == -2) links_[name] = model_.AddLink(known.strings[name]);
      out.link = links_[name];
    }
  } else if (mapping_.has_ranges()) {
    Meaning& meaning = Mapped(thread, domain, category, name);
    by = &meaning;
    out.mapped = meaning.rule != nullptr;
    out.category = meaning.category;
    out.stage = meaning.stage;
    out.link = meaning.link;
  }
  const auto [kind, values] = Known(payload);
  if (!TakeFields(kind, values, out)) return false;
  return out.category != Category::kNone || MeanByItself(kind, known.strings[name], out);
}

}  // namespace poolscope
