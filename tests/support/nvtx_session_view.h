#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trace/session_format.h"

// A second, plain reader of session files, for tests of the writer: follows session_format.h, knows
// nothing of the production reader, trusts the file.

namespace poolscope::support {

struct ViewedEvent {
  RecordKind kind;
  uint8_t flags;
  std::string domain, name;
  uint32_t category;
  uint32_t depth;
  uint64_t start, end;  // ticks, of activities what their flags say; equal for marks and counters
  uint64_t value;       // counters and plain payloads
  uint64_t id;          // open_id or range id
  uint32_t tid, start_tid;
  LaneDef lane;  // of activities
  // schema -> field -> value; strings resolved
  std::map<std::string, std::map<std::string, std::string>> payload;
};

struct ViewedOpen {
  std::string domain, name;
  uint32_t category;
  uint64_t start;
  uint64_t id;
  uint32_t tid;
};

struct ViewedDefinition {
  DefinitionKind kind;
  uint64_t id;
  std::vector<uint8_t> payload;
  uint32_t Word(size_t index) const;
};

struct SessionView {
  std::string path;
  uint32_t pid = 0, parent_pid = 0;
  bool ended = false, locked = false;
  uint32_t slots_used = 0;
  ClockKind clock = ClockKind::kMonotonic;
  uint64_t triples = 0;
  std::string run_id, command, host;
  uint64_t file_blocks_bytes = 0;  // memory that it takes
  std::map<uint32_t, std::string> strings;
  std::map<uint32_t, std::string> domains;
  std::map<uint64_t, LaneDef> lanes;
  std::vector<ViewedDefinition> definitions;  // all but strings and domains
  std::vector<ViewedEvent> events;            // by slot, in order of recording
  std::vector<ViewedOpen> open;               // push/pop and start/end
  std::map<std::string, uint64_t> losses;     // by cause, none left out but zeros

  size_t Count(const std::string& name) const;
  const ViewedEvent* Find(const std::string& name) const;
  uint64_t Lost() const;
};

// The sessions of a run folder, by pid.
std::vector<SessionView> ViewSessions(const std::string& directory);
SessionView ViewSession(const std::string& path);

// What a collector does to a session: takes it over, and frees all that is written so far. Gives
// the number of records freed.
void SetRingMode(const std::string& path, RingMode mode);
uint64_t FreeAll(const std::string& path);

}  // namespace poolscope::support
