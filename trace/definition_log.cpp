#include "trace/definition_log.h"

#include <string.h>

#include "trace/zeroed_memory.h"

namespace poolscope {
namespace {

constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * kMultiplier;
  return hash ^ (hash >> 29);
}

uint64_t HashBytes(const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  uint64_t hash = bytes * kMultiplier;
  for (; bytes >= 8; bytes -= 8, at += 8) {
    uint64_t word;
    memcpy(&word, at, 8);
    hash = Mix(hash, word);
  }
  uint64_t word = 0;
  memcpy(&word, at, bytes);
  return Mix(Mix(hash, word), 1);
}

uint32_t EntryBytes(uint32_t payload_bytes) {
  return static_cast<uint32_t>(sizeof(DefinitionHeader)) + ((payload_bytes + 7) & ~7u);
}

bool IsAboutAThread(const DefinitionHeader& entry) {
  // NVTX's resource types: class 1 (generic) with types 3 (native thread) and 4 (POSIX thread).
  return entry.kind == static_cast<uint16_t>(DefinitionKind::kThreadName) ||
         (entry.kind == static_cast<uint16_t>(DefinitionKind::kResource) &&
          (entry.id == 0x10003 || entry.id == 0x10004));
}

}  // namespace

bool DefinitionLog::Init() {
  if (log_ != nullptr) return true;
  strings_ = MapZeroed<std::atomic<uint64_t>>(kStringSlots);
  string_offsets_ = MapZeroed<std::atomic<uint32_t>>(kMaxStrings + 1);
  latest_ = MapZeroed<uint64_t>(2 * kLatestSlots);
  if (strings_ == nullptr || string_offsets_ == nullptr || latest_ == nullptr) return false;
  log_ = MapZeroed<uint8_t>(kDefinitionBytes);
  if (log_ == nullptr) return false;
  constexpr std::string_view kOverflowText = "(too many names)";
  return AppendString(kOverflowText) == kOverflowString;
}

uint32_t DefinitionLog::Hash(std::string_view text) {
  return static_cast<uint32_t>(HashBytes(text.data(), text.size()) >> 32);
}

uint32_t DefinitionLog::Find(std::string_view text, uint32_t hash) const {
  for (uint32_t i = 0; i < kStringSlots; ++i) {
    const uint64_t slot = strings_[(hash + i) & (kStringSlots - 1)].load(std::memory_order_acquire);
    if (slot == 0) return 0;
    if (static_cast<uint32_t>(slot >> 32) == hash && Text(static_cast<uint32_t>(slot)) == text) {
      return static_cast<uint32_t>(slot);
    }
  }
  return 0;
}

std::string_view DefinitionLog::Text(uint32_t id) const {
  if (id == 0 || id > string_count()) return {};
  const uint8_t* entry = log_ + string_offsets_[id].load(std::memory_order_relaxed);
  DefinitionHeader header;
  memcpy(&header, entry, sizeof(header));
  return {reinterpret_cast<const char*>(entry + sizeof(header)), header.bytes};
}

uint32_t DefinitionLog::AppendString(std::string_view text) {
  const uint32_t id = string_count() + 1;
  const auto offset = static_cast<uint32_t>(bytes_);
  if (id > kMaxStrings || text.size() > kMaxStringBytes ||
      !AppendEntry(DefinitionKind::kString, id, text.data(), static_cast<uint32_t>(text.size()))) {
    return 0;
  }
  string_offsets_[id].store(offset, std::memory_order_relaxed);
  string_count_.store(id, std::memory_order_release);
  return id;
}

void DefinitionLog::Expose(uint32_t id, uint32_t hash) {
  uint32_t at = hash & (kStringSlots - 1);
  while (strings_[at].load(std::memory_order_relaxed) != 0) at = (at + 1) & (kStringSlots - 1);
  strings_[at].store(uint64_t{hash} << 32 | id, std::memory_order_release);
}

bool DefinitionLog::Append(DefinitionKind kind, uint64_t id, const void* payload, uint32_t bytes,
                           uint64_t scope) {
  const uint64_t key = Mix(Mix(Mix(1, static_cast<uint64_t>(kind)), id), scope);
  const uint64_t value = HashBytes(payload, bytes);
  uint64_t* latest = latest_ + 2 * (key & (kLatestSlots - 1));
  if (latest[0] == key && latest[1] == value) return true;
  if (!AppendEntry(kind, id, payload, bytes)) return false;
  latest[0] = key;
  latest[1] = value;
  return true;
}

bool DefinitionLog::AppendEntry(DefinitionKind kind, uint64_t id, const void* payload,
                                uint32_t bytes) {
  const uint32_t size = EntryBytes(bytes);
  if (closed_ || size > kDefinitionBytes - bytes_) return false;
  const DefinitionHeader header = {static_cast<uint16_t>(kind), 0, bytes, id};
  memcpy(log_ + bytes_, &header, sizeof(header));
  memcpy(log_ + bytes_ + sizeof(header), payload, bytes);
  bytes_ += size;
  return true;
}

void DefinitionLog::TruncateAndClose(uint64_t bytes) {
  bytes_ = bytes;
  closed_ = true;
  uint32_t count = string_count();
  while (count > 0 && string_offsets_[count].load(std::memory_order_relaxed) >= bytes) --count;
  string_count_.store(count, std::memory_order_release);
}

void DefinitionLog::ForgetThreads() {
  if (log_ == nullptr) return;
  uint64_t kept = 0;
  for (uint64_t at = 0; at < bytes_;) {
    DefinitionHeader header;
    memcpy(&header, log_ + at, sizeof(header));
    const uint32_t size = EntryBytes(header.bytes);
    if (!IsAboutAThread(header)) {
      if (kept != at) memmove(log_ + kept, log_ + at, size);
      if (header.kind == static_cast<uint16_t>(DefinitionKind::kString)) {
        string_offsets_[header.id].store(static_cast<uint32_t>(kept), std::memory_order_relaxed);
      }
      kept += size;
    }
    at += size;
  }
  bytes_ = kept;
  memset(latest_, 0, 2 * kLatestSlots * sizeof(uint64_t));
}

}  // namespace poolscope
