#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "reference-trainer/options.h"

namespace poolscope::trainer {

// The command line `poolscope-trainer LINE`.
inline std::variant<Options, Exit> Parse(const std::string& line) {
  std::istringstream words("poolscope-trainer " + line);
  std::vector<std::string> arguments;
  for (std::string word; words >> word;) arguments.push_back(word);
  std::vector<const char*> pointers;
  for (const std::string& each : arguments) pointers.push_back(each.c_str());
  return ParseOptions(static_cast<int>(pointers.size()), pointers.data());
}

// Fails the test where it is wrong.
inline Options Good(const std::string& line) {
  const auto parsed = Parse(line);
  if (const Exit* exit = std::get_if<Exit>(&parsed)) {
    ADD_FAILURE() << exit->text;
    return {};
  }
  return std::get<Options>(parsed);
}

// What it says where it is wrong usage.
inline std::string Error(const std::string& line) {
  const auto parsed = Parse(line);
  const Exit* exit = std::get_if<Exit>(&parsed);
  if (!exit || exit->code != 2) ADD_FAILURE() << line << " is no wrong usage";
  return exit ? exit->text : "";
}

}  // namespace poolscope::trainer
