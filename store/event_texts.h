#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/statement.h"
#include "trace/event.h"

namespace poolscope {

// Names and payloads of events as text, read from a store's connection. Ids never change their
// meaning, so what was read is kept.
class EventTexts {
 public:
  explicit EventTexts(sqlite3* db) : db_(db) {}

  // The text of a string id; nullptr for 0 and for ids that the store does not have.
  const std::string* Text(uint32_t id);
  // The string id of a text, 0 where absent.
  uint32_t Find(std::string_view text);

  // The event's payload as one JSON object, "" where it has none. Values that do not apply
  // (kNoValue) and numbers that JSON has not are null; a schema that is not known gives its fields
  // by position; a field whose name an earlier group has is written as "schema.field".
  std::string Payload(const EventBatch& batch, const Event& event);

 private:
  struct Field {
    std::string name;
    char type = 'u';
  };
  const std::vector<Field>& Fields(uint32_t schema);
  void AppendValue(uint64_t value, char type, std::string& json);
  void AppendArray(std::span<const uint64_t> words, char type, std::string& json);

  sqlite3* db_;
  std::unordered_map<uint32_t, std::string> texts_;
  std::unordered_map<uint32_t, std::vector<Field>> schemas_;
};

}  // namespace poolscope
