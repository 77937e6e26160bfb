#pragma once

#include <string>

#include "collector/seen.h"

namespace poolscope {

// A mapping in TOML for what was seen: rules that match something, with comments on what each
// matches and on what only a person can know. Guesses go by the words in names.
std::string SuggestMapping(const Seen& seen);

}  // namespace poolscope
