#pragma once

#include <span>
#include <string_view>

namespace poolscope {

// A mapping that ships with the program, for jobs of a known kind.
struct Preset {
  std::string_view name;
  std::string_view meaning;  // one line
  std::string_view toml;
};
std::span<const Preset> Presets();

}  // namespace poolscope
