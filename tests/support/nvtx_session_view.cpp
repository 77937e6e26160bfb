#include "tests/support/nvtx_session_view.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace poolscope::support {
namespace {

// The file's bytes, mapped with room for it to grow meanwhile. Holes read as zeros.
class Bytes {
 public:
  explicit Bytes(const std::string& path, bool write = false) {
    file_ = open(path.c_str(), write ? O_RDWR : O_RDONLY);
    struct stat info = {};
    fstat(file_, &info);
    size_ = static_cast<size_t>(info.st_size);
    blocks_ = static_cast<uint64_t>(info.st_blocks) * 512;
    base_ = static_cast<uint8_t*>(
        mmap(nullptr, kMapped, PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, file_, 0));
  }
  ~Bytes() {
    munmap(base_, kMapped);
    close(file_);
  }
  template <typename T>
  T* At(uint64_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }
  bool Holds(uint64_t end) const { return end <= size_; }
  uint64_t blocks() const { return blocks_; }
  int file() const { return file_; }

 private:
  static constexpr size_t kMapped = size_t{1} << 32;
  int file_;
  size_t size_;
  uint64_t blocks_;
  uint8_t* base_;
};

std::string Hex(const uint8_t (&id)[16]) {
  std::string text;
  for (const uint8_t byte : id) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

struct Schemas {
  std::map<uint32_t, std::vector<SchemaFieldDef>> by_id;
};

void ReadDefinitions(const Bytes& bytes, SessionView* view, Schemas* schemas) {
  const auto* header = bytes.At<SessionHeader>(0);
  uint64_t at = kDefinitionsAt;
  const uint64_t end = at + header->definition_bytes.load();
  while (at < end) {
    const auto* entry = bytes.At<DefinitionHeader>(at);
    const auto* payload = bytes.At<uint8_t>(at + sizeof(DefinitionHeader));
    const auto kind = static_cast<DefinitionKind>(entry->kind);
    if (kind == DefinitionKind::kString) {
      view->strings[static_cast<uint32_t>(entry->id)] =
          std::string(reinterpret_cast<const char*>(payload), entry->bytes);
    } else if (kind == DefinitionKind::kDomain) {
      view->domains[static_cast<uint32_t>(entry->id)] =
          view->strings[*reinterpret_cast<const uint32_t*>(payload)];
    } else {
      if (kind == DefinitionKind::kSchema) {
        const auto* fields = reinterpret_cast<const SchemaFieldDef*>(payload);
        schemas->by_id[static_cast<uint32_t>(entry->id)] = {
            fields, fields + entry->bytes / sizeof(SchemaFieldDef)};
      }
      if (kind == DefinitionKind::kLane) {
        view->lanes[entry->id] = *reinterpret_cast<const LaneDef*>(payload);
      }
      view->definitions.push_back({kind, entry->id, {payload, payload + entry->bytes}});
    }
    at += sizeof(DefinitionHeader) + ((entry->bytes + 7) & ~7u);
  }
}

std::string FieldText(const SessionView& view, const SchemaFieldDef& field, uint64_t word) {
  switch (static_cast<FieldType>(field.type)) {
    case FieldType::kUint64:
      return std::to_string(word);
    case FieldType::kInt64:
      return std::to_string(static_cast<int64_t>(word));
    case FieldType::kDouble:
      return std::to_string(std::bit_cast<double>(word));
    case FieldType::kString: {
      const auto found = view.strings.find(static_cast<uint32_t>(word));
      return found == view.strings.end() ? "" : found->second;
    }
  }
  return "?";
}

std::string DomainName(const SessionView& view, uint32_t domain) {
  const auto found = view.domains.find(domain);
  return found == view.domains.end() ? "" : found->second;
}

ViewedEvent ReadRecord(const SessionView& view, const Schemas& schemas, const uint64_t* words,
                       uint32_t tid) {
  RecordHeader header;
  memcpy(&header, words, sizeof(header));
  ViewedEvent event = {};
  event.kind = static_cast<RecordKind>(header.kind);
  event.flags = header.flags;
  event.domain = DomainName(view, header.domain);
  event.depth = header.depth;
  const auto name = view.strings.find(static_cast<uint32_t>(words[1]));
  event.name = name == view.strings.end() ? "" : name->second;
  event.category = static_cast<uint32_t>(words[1] >> 32);
  event.tid = tid;
  event.start_tid = tid;
  uint32_t at = 3;
  event.start = event.end = words[2];
  if (event.kind == RecordKind::kRange || event.kind == RecordKind::kProcessRange) {
    event.end = words[3];
    event.id = words[4];
    at = 5;
  }
  if (event.kind == RecordKind::kActivity) {
    event.end = words[3];
    event.lane = view.lanes.at(words[4]);
    at = 5;
  }
  if (event.kind == RecordKind::kProcessRange) event.start_tid = static_cast<uint32_t>(words[at++]);
  if (event.kind == RecordKind::kCounter || (header.flags & kRecordHasValue) != 0) {
    event.value = words[at++];
  }
  while (at < header.words) {
    const auto schema = static_cast<uint32_t>(words[at]);
    const auto count = static_cast<uint32_t>(words[at] >> 32);
    const auto& fields = schemas.by_id.at(schema);
    if (fields.size() == 1 && fields[0].repeats == 1) {
      std::string& text = event.payload[view.strings.at(schema)][view.strings.at(fields[0].name)];
      for (uint32_t i = 0; i < count; ++i) {
        text += (i == 0 ? "" : " ") + FieldText(view, fields[0], words[at + 1 + i]);
      }
    }
    for (uint32_t i = 0; i < count && fields[0].repeats == 0; ++i) {
      event.payload[view.strings.at(schema)][view.strings.at(fields.at(i).name)] =
          FieldText(view, fields.at(i), words[at + 1 + i]);
    }
    at += 1 + count;
  }
  return event;
}

void ReadSlot(const Bytes& bytes, const ThreadSlot& slot, const Schemas& schemas,
              SessionView* view) {
  const uint64_t end = slot.write_position.load();
  uint64_t at = std::max(slot.first_position.load(), slot.read_position.load());
  while (at < end) {
    const auto* words = bytes.At<uint64_t>(slot.ring_offset + at % slot.ring_bytes);
    RecordHeader header;
    memcpy(&header, words, sizeof(header));
    if (header.kind != static_cast<uint8_t>(RecordKind::kPad)) {
      view->events.push_back(ReadRecord(*view, schemas, words, slot.tid));
    }
    at += header.words * 8u;
  }
  for (uint32_t i = 0; i < slot.open_depth.load(); ++i) {
    const OpenRange& open = slot.open[i];
    view->open.push_back({DomainName(*view, open.domain), view->strings[open.name], open.category,
                          open.start_ticks, open.open_id, slot.tid});
  }
}

void ReadProcessRanges(const Bytes& bytes, SessionView* view) {
  for (uint32_t i = 0; i < kMaxOpenProcessRanges; ++i) {
    const uint64_t at = kProcessRangesAt + i * sizeof(ProcessRange);
    if (!bytes.Holds(at + sizeof(ProcessRange))) return;
    const auto* range = bytes.At<ProcessRange>(at);
    if (range->id.load() == 0) continue;
    view->open.push_back({DomainName(*view, range->domain), view->strings[range->name],
                          range->category, range->start_ticks, range->id.load(), range->start_tid});
  }
}

}  // namespace

uint32_t ViewedDefinition::Word(size_t index) const {
  uint32_t word;
  memcpy(&word, payload.data() + 4 * index, 4);
  return word;
}

size_t SessionView::Count(const std::string& name) const {
  return static_cast<size_t>(
      std::count_if(events.begin(), events.end(), [&](const auto& e) { return e.name == name; }));
}

const ViewedEvent* SessionView::Find(const std::string& name) const {
  for (const ViewedEvent& event : events) {
    if (event.name == name) return &event;
  }
  return nullptr;
}

uint64_t SessionView::Lost() const {
  uint64_t sum = 0;
  for (const auto& [cause, count] : losses) sum += count;
  return sum;
}

SessionView ViewSession(const std::string& path) {
  const Bytes bytes(path);
  SessionView view;
  view.path = path;
  if (!bytes.Holds(sizeof(SessionHeader))) return view;
  const auto* header = bytes.At<SessionHeader>(0);
  if (header->magic != kSessionMagic) return view;
  view.pid = header->pid;
  view.parent_pid = header->parent_pid;
  view.ended = header->ended.load() != 0;
  struct flock lock = {};
  lock.l_type = F_RDLCK;
  fcntl(bytes.file(), F_GETLK, &lock);
  view.locked = lock.l_type != F_UNLCK;
  view.slots_used = header->slots_used.load();
  view.clock = header->clock;
  view.triples = header->triples_written.load();
  view.run_id = Hex(header->run_id);
  view.command = header->command;
  view.host = header->host;
  view.file_blocks_bytes = bytes.blocks();
  for (size_t i = 0; i < static_cast<size_t>(LossCause::kCount); ++i) {
    const uint64_t events = header->losses[i].events.load();
    if (events != 0) view.losses[LossCauseName(static_cast<LossCause>(i))] = events;
  }
  Schemas schemas;
  ReadDefinitions(bytes, &view, &schemas);
  for (uint32_t i = 0; i < view.slots_used; ++i) {
    ReadSlot(bytes, *bytes.At<ThreadSlot>(kSlotsAt + i * sizeof(ThreadSlot)), schemas, &view);
  }
  ReadProcessRanges(bytes, &view);
  return view;
}

std::vector<SessionView> ViewSessions(const std::string& directory) {
  std::vector<SessionView> views;
  DIR* listing = opendir(directory.c_str());
  if (listing == nullptr) return views;
  while (const dirent* entry = readdir(listing)) {
    const std::string name = entry->d_name;
    if (name.ends_with(kSessionSuffix)) views.push_back(ViewSession(directory + "/" + name));
  }
  closedir(listing);
  std::sort(views.begin(), views.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return views;
}

void SetRingMode(const std::string& path, RingMode mode) {
  const Bytes bytes(path, true);
  bytes.At<SessionHeader>(0)->ring_mode.store(static_cast<uint32_t>(mode));
}

uint64_t FreeAll(const std::string& path) {
  const Bytes bytes(path, true);
  const auto* header = bytes.At<SessionHeader>(0);
  uint64_t freed = 0;
  for (uint32_t i = 0; i < header->slots_used.load(); ++i) {
    auto* slot = bytes.At<ThreadSlot>(kSlotsAt + i * sizeof(ThreadSlot));
    if (slot->overwriting.load() != 0) continue;
    const uint64_t end = slot->write_position.load();
    for (uint64_t at = std::max(slot->first_position.load(), slot->read_position.load());
         at < end;) {
      RecordHeader record;
      memcpy(&record, bytes.At<uint8_t>(slot->ring_offset + at % slot->ring_bytes), 8);
      if (record.kind != static_cast<uint8_t>(RecordKind::kPad)) ++freed;
      at += record.words * 8u;
    }
    slot->read_position.store(end);
  }
  return freed;
}

}  // namespace poolscope::support
