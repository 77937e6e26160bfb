#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

// One line of a timeline that the stand-in libcupti plays: a word, a name, key=value.
struct Line {
  std::string word, name;
  std::map<std::string, std::string> values;

  uint64_t Get(const std::string& key, uint64_t otherwise) const {
    const auto found = values.find(key);
    return found == values.end() ? otherwise : strtoull(found->second.c_str(), nullptr, 0);
  }
  uint32_t Number(const std::string& key, uint32_t otherwise) const {
    return static_cast<uint32_t>(Get(key, otherwise));
  }
  double Real(const std::string& key, double otherwise) const {
    const auto found = values.find(key);
    return found == values.end() ? otherwise : strtod(found->second.c_str(), nullptr);
  }
};

inline Line Parse(std::istringstream& words) {
  Line line;
  words >> line.word;
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      line.name = word;
    } else {
      line.values[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  return line;
}
