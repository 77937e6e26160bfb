#pragma once

#include <span>

namespace poolscope::trainer {

// A file of scenarios/, put into the program by scenarios.cmake.
struct ScenarioText {
  const char* name;
  const char* toml;
};
extern const std::span<const ScenarioText> kScenarioTexts;  // by name

}  // namespace poolscope::trainer
