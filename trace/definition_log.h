#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "trace/limits.h"
#include "trace/session_format.h"

namespace poolscope {

// What names, domains, schemas and counters mean, in the layout of the session file's definition
// log, but in the process's own memory: it exists before the first event makes a session, and a
// forked child starts its session from it, so that every id and handle stays valid.
// Find may be called by any thread at any time; everything else under the session's lock.
class DefinitionLog {
 public:
  // Maps the memory (touched only as it fills). False: none to be had.
  bool Init();

  static uint32_t Hash(std::string_view text);

  // The id of a string, 0 where it is not known. No lock, no allocation.
  uint32_t Find(std::string_view text, uint32_t hash) const;

  // Appends a string, at most kMaxStringBytes long, and gives its id; 0 when the log is full.
  // Find does not see it until Expose, so that it can be published in between.
  uint32_t AppendString(std::string_view text);
  void Expose(uint32_t id, uint32_t hash);

  // Appends another definition unless it repeats the last one for the same kind, id and scope
  // (domain or identifier). False when the log is full.
  bool Append(DefinitionKind kind, uint64_t id, const void* payload, uint32_t bytes,
              uint64_t scope);

  // Undoes an append that could not be published; nothing more will be taken.
  void TruncateAndClose(uint64_t bytes);

  // In a forked child: drops what was said about the parent's threads.
  void ForgetThreads();

  std::string_view Text(uint32_t id) const;
  uint32_t string_count() const { return string_count_.load(std::memory_order_acquire); }

  const uint8_t* data() const { return log_; }
  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr uint32_t kStringSlots = kMaxStrings * 2;
  static constexpr uint32_t kLatestSlots = 16384;
  static_assert((kStringSlots & (kStringSlots - 1)) == 0);

  bool AppendEntry(DefinitionKind kind, uint64_t id, const void* payload, uint32_t bytes);

  uint8_t* log_ = nullptr;                           // kDefinitionBytes
  std::atomic<uint64_t>* strings_ = nullptr;         // kStringSlots: hash << 32 | id, 0 empty
  std::atomic<uint32_t>* string_offsets_ = nullptr;  // by id: where its entry lies in log_
  uint64_t* latest_ = nullptr;                       // kLatestSlots: {key, payload} hashes
  uint64_t bytes_ = 0;
  bool closed_ = false;
  std::atomic<uint32_t> string_count_ = 0;
};

}  // namespace poolscope
