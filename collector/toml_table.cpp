#include "collector/toml_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace poolscope {
namespace {

constexpr size_t kMaxName = 100;  // so that those of a link fit into what annotate.h tells

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t cost = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = std::exchange(row[j], cost);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view Nearest(std::string_view text, std::span<const std::string_view> words) {
  const auto begun = std::find_if(words.begin(), words.end(), [&](std::string_view word) {
    return text.size() >= 3 && word.starts_with(text);
  });
  if (begun != words.end()) return *begun;
  return *std::min_element(words.begin(), words.end(), [&](auto a, auto b) {
    return EditDistance(text, a) < EditDistance(text, b);
  });
}

TomlTable::TomlTable(const toml::table& table, std::string file, std::string kind,
                     std::span<const std::string_view> known)
    : table_(table), file_(std::move(file)), kind_(std::move(kind)), known_(known) {
  for (const auto& [key, value] : table) {
    const std::string_view name = key.str();
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    error_ = fmt::format("{}:{}: unknown key '{}' in {}: did you mean '{}'?", file_,
                         key.source().begin.line, name, kind_, Nearest(name, known));
    return;
  }
}

void TomlTable::Text(std::string_view key, std::string& out, bool required) {
  const toml::node* node = get(key);
  if (node == nullptr) {
    if (required) Fail(key, fmt::format("{} needs the key '{}'", kind_, key));
    return;
  }
  const auto value = node->value_exact<std::string>();
  if (!value.has_value()) return Fail(key, fmt::format("'{}' must be a text in quotes", key));
  if (required && value->empty()) return Fail(key, fmt::format("'{}' is empty", key));
  out = *value;
}

void TomlTable::Name(std::string_view key, std::string& out, bool required) {
  Text(key, out, required);
  const auto separates = [](unsigned char c) { return c <= 0x20 || c == 0x7f; };
  if (out.size() > kMaxName || std::any_of(out.begin(), out.end(), separates)) {
    Fail(key, fmt::format("'{}' must be a name of at most {} bytes, without spaces and control "
                          "characters",
                          key, kMaxName));
  }
}

void TomlTable::Texts(std::string_view key, std::vector<std::string>& out) {
  const toml::node* node = get(key);
  if (node == nullptr) return;
  const auto add = [&](const toml::node& one) {
    const auto value = one.value_exact<std::string>();
    if (!value.has_value()) return Fail(key, fmt::format("'{}' must be texts in quotes", key));
    out.push_back(*value);
  };
  if (const toml::array* array = node->as_array(); array != nullptr) {
    if (array->empty()) Fail(key, fmt::format("'{}' is empty", key));
    for (const toml::node& one : *array) add(one);
  } else {
    add(*node);
  }
}

void TomlTable::Number(std::string_view key, int64_t& out) {
  const toml::node* node = get(key);
  if (node == nullptr) return;
  const auto value = node->value_exact<int64_t>();
  if (!value.has_value() || *value < 0) {
    return Fail(key, fmt::format("'{}' must be a whole number from 0", key));
  }
  out = *value;
}

void TomlTable::Numbers(std::string_view key, NumberSet& out) {
  const toml::node* node = get(key);
  if (node == nullptr) return;
  if (const auto number = node->value_exact<int64_t>(); number.has_value() && *number >= 0) {
    out = NumberSet::Of(static_cast<uint64_t>(*number));
    return;
  }
  const auto text = node->value_exact<std::string>();
  const auto parsed = text.has_value() ? NumberSet::Parse(*text) : std::nullopt;
  if (!parsed.has_value()) {
    return Fail(key, fmt::format("'{}' must be a number or numbers as \"0-7,12\"", key));
  }
  out = *parsed;
}

void TomlTable::Seconds(std::string_view key, int64_t& out_ns) {
  const toml::node* node = get(key);
  if (node == nullptr) return;
  const double seconds = node->is_number() ? node->value_or(-1.0) : -1.0;
  if (!(seconds >= 0 && seconds < 1e9)) {
    return Fail(key, fmt::format("'{}' must be a number of seconds from 0", key));
  }
  out_ns = static_cast<int64_t>(seconds * 1e9);
}

void TomlTable::Flag(std::string_view key, bool& out) {
  const toml::node* node = get(key);
  if (node == nullptr) return;
  const auto value = node->value_exact<bool>();
  if (!value.has_value()) return Fail(key, fmt::format("'{}' must be true or false", key));
  out = *value;
}

void TomlTable::NumberOrText(std::string_view key, std::optional<double>& number,
                             std::string& text) {
  const toml::node* node = get(key);
  if (node == nullptr) return;
  if (node->is_number()) number = node->value<double>();
  if (node->is_string()) text = node->value_or(std::string());
  if (number.has_value() ? !(*number >= 0 && *number < 9e15) : text.empty()) {
    Fail(key, fmt::format("'{}' must be a number from 0, or the name of a payload field", key));
  }
}

void TomlTable::OneOf(std::string_view key, const std::string& value,
                      std::span<const std::string_view> words) {
  if (value.empty() || std::find(words.begin(), words.end(), value) != words.end()) return;
  Fail(key,
       fmt::format("{} '{}' is not known: did you mean '{}'?", key, value, Nearest(value, words)));
}

std::string TomlTable::Summary() const {
  std::ostringstream text;
  for (const std::string_view key : known_) {
    const toml::node* node = get(key);
    if (node == nullptr) continue;
    text << (text.tellp() == 0 ? "" : ", ") << key << " = " << toml::node_view(*node);
  }
  return text.str();
}

void TomlTable::Fail(std::string_view key, const std::string& what) {
  const toml::node* node = get(key);
  const uint32_t line = node == nullptr ? this->line() : node->source().begin.line;
  if (error_.empty()) error_ = fmt::format("{}:{}: {}", file_, line, what);
}

}  // namespace poolscope
