#pragma once

#include <string>
#include <string_view>

namespace poolscope {

// A name of C++ as its source has it ("_Z4gemmPf": "gemm(float*)"); "" where it is none, or longer
// than kMaxSymbolBytes so. Any bytes may be given: time, memory and depth are bounded.
std::string Demangle(std::string_view mangled);

}  // namespace poolscope
