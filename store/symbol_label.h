#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace poolscope {

// A name of C++ as there is room for it: without what it returns, its arguments and its
// namespaces; longer than `most` bytes, its innermost template arguments become "…", then those
// around them, then its middle.
std::string SymbolLabel(std::string_view symbol, size_t most);

}  // namespace poolscope
