#pragma once

#include <string_view>

namespace poolscope {

// Shell-like: * matches any text, ? one character. `last_star` gets what the last * matched.
bool GlobMatch(std::string_view pattern, std::string_view text,
               std::string_view* last_star = nullptr);

}  // namespace poolscope
