#pragma once

#include <string>

#include "collector/mapping.h"
#include "collector/seen.h"

namespace poolscope {

struct MappingCheck {
  std::string text;         // for a person: each rule and what it matched, then what is left over
  int matched_nothing = 0;  // rules
};

// What each rule of the mapping makes of what was seen.
MappingCheck CheckMapping(const Mapping& mapping, const Seen& seen);

}  // namespace poolscope
