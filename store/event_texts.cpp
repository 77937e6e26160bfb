#include "store/event_texts.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <iterator>
#include <set>

namespace poolscope {
namespace {

Statement Prepared(sqlite3* db, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(db, sql, -1, &statement, nullptr);
  return Statement(statement);
}

// Always valid JSON: what is not UTF-8 becomes U+FFFD, byte by byte.
void AppendQuoted(std::string_view text, std::string& json) {
  const auto out = std::back_inserter(json);
  json += '"';
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const size_t length = byte < 0x80                   ? 1
                          : byte >= 0xc2 && byte < 0xe0 ? 2
                          : byte >= 0xe0 && byte < 0xf0 ? 3
                          : byte >= 0xf0 && byte < 0xf5 ? 4
                                                        : 0;
    bool whole = length != 0 && at + length <= text.size();
    for (size_t i = 1; whole && i < length; ++i) {
      whole = (static_cast<unsigned char>(text[at + i]) & 0xc0) == 0x80;
    }
    if (!whole) {
      json += "\\ufffd";
      at += 1;
      continue;
    }
    if (byte == '"' || byte == '\\') {
      json += '\\';
      json += text[at];
    } else if (byte < 0x20) {
      fmt::format_to(out, "\\u{:04x}", byte);
    } else {
      json += text.substr(at, length);
    }
    at += length;
  }
  json += '"';
}

}  // namespace

const std::string* EventTexts::Text(uint32_t id) {
  if (id == 0) return nullptr;
  if (const auto found = texts_.find(id); found != texts_.end()) return &found->second;
  Statement statement = Prepared(db_, "SELECT text FROM string WHERE string_id = ?");
  statement.Bind(0, id);
  if (sqlite3_step(statement.get()) != SQLITE_ROW) return nullptr;
  return &texts_.emplace(id, statement.Text(0)).first->second;
}

uint32_t EventTexts::Find(std::string_view text) {
  Statement statement = Prepared(db_, "SELECT string_id FROM string WHERE text = ?");
  statement.Bind(0, text);
  if (sqlite3_step(statement.get()) != SQLITE_ROW) return 0;
  return static_cast<uint32_t>(statement.Integer(0));
}

const std::vector<EventTexts::Field>& EventTexts::Fields(uint32_t schema) {
  const auto [found, fresh] = schemas_.try_emplace(schema);
  if (fresh) {
    Statement statement =
        Prepared(db_, "SELECT name, type FROM payload_field WHERE schema = ? ORDER BY position");
    statement.Bind(0, schema);
    while (sqlite3_step(statement.get()) == SQLITE_ROW) {
      const std::string_view type = statement.Text(1);
      found->second.push_back({std::string(statement.Text(0)), type.empty() ? 'u' : type[0]});
    }
  }
  return found->second;
}

void EventTexts::AppendValue(uint64_t value, char type, std::string& json) {
  const auto out = std::back_inserter(json);
  const double real = std::bit_cast<double>(value);
  const std::string* text = type == 's' ? Text(static_cast<uint32_t>(value)) : nullptr;
  if (type == 's' && text != nullptr) {
    AppendQuoted(*text, json);
  } else if (type == 's' || (type == 'd' && !std::isfinite(real)) ||
             (type == 'u' && value == kNoValue)) {
    json += "null";
  } else if (type == 'd') {
    fmt::format_to(out, "{}", real);
  } else if (type == 'i') {
    fmt::format_to(out, "{}", static_cast<int64_t>(value));
  } else {
    fmt::format_to(out, "{}", value);
  }
}

void EventTexts::AppendArray(std::span<const uint64_t> words, char type, std::string& json) {
  json += '[';
  for (const uint64_t word : words) {
    if (json.back() != '[') json += ',';
    AppendValue(word, static_cast<char>(type - 'A' + 'a'), json);
  }
  json += ']';
}

std::string EventTexts::Payload(const EventBatch& batch, const Event& event) {
  std::string json;
  std::set<std::string> used;
  size_t at = event.payload_offset;
  const size_t end = at + event.payload_words;
  if (end > batch.words.size()) return json;
  while (at < end) {
    const uint32_t schema = static_cast<uint32_t>(batch.words[at]);
    const size_t count = std::min<size_t>(batch.words[at] >> 32, end - at - 1);
    const bool only = at + 1 + count == end && json.empty();
    const std::vector<Field>& fields = Fields(schema);
    const bool is_array = fields.size() == 1 && fields[0].type < 'a';
    for (size_t i = 0; i < (is_array ? 1 : count); ++i) {
      std::string name = i < fields.size() ? fields[i].name : std::to_string(i);
      if (!only && !used.insert(name).second) {
        const std::string* schema_name = Text(schema);
        name = fmt::format("{}.{}", schema_name ? *schema_name : std::to_string(schema), name);
      }
      json += json.empty() ? '{' : ',';
      AppendQuoted(name, json);
      json += ':';
      if (is_array) {
        AppendArray({batch.words.data() + at + 1, count}, fields[0].type, json);
      } else {
        AppendValue(batch.words[at + 1 + i], i < fields.size() ? fields[i].type : 'u', json);
      }
    }
    at += 1 + count;
  }
  if (!json.empty()) json += '}';
  return json;
}

}  // namespace poolscope
