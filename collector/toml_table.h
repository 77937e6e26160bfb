#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collector/number_set.h"

namespace poolscope {

// The word of `words` nearest to `text`: one that it begins, else by edits.
std::string_view Nearest(std::string_view text, std::span<const std::string_view> words);

// One table of a mapping's file, read key by key; the first error stays.
class TomlTable {
 public:
  // A key that is not among `known` is an error.
  TomlTable(const toml::table& table, std::string file, std::string kind,
            std::span<const std::string_view> known);

  void Text(std::string_view key, std::string& out, bool required = false);
  void Texts(std::string_view key, std::vector<std::string>& out);  // one, or an array of them
  void Number(std::string_view key, int64_t& out);                  // whole, from 0
  void Numbers(std::string_view key, NumberSet& out);               // 3 or "0-7,12"
  void Seconds(std::string_view key, int64_t& out_ns);              // a number from 0
  void Flag(std::string_view key, bool& out);
  // A number from 0, or a text.
  void NumberOrText(std::string_view key, std::optional<double>& number, std::string& text);
  void OneOf(std::string_view key, const std::string& value,
             std::span<const std::string_view> words);

  // Of the key, or where it is missing of the table.
  void Fail(std::string_view key, const std::string& what);

  bool has(std::string_view key) const { return table_.get(key) != nullptr; }
  const toml::node* get(std::string_view key) const { return table_.get(key); }
  std::string Summary() const;  // its keys and values on one line, in the order of `known`
  uint32_t line() const { return table_.source().begin.line; }
  const std::string& error() const { return error_; }

 private:
  const toml::table& table_;
  std::string file_;
  std::string kind_;
  std::span<const std::string_view> known_;
  std::string error_;
};

}  // namespace poolscope
