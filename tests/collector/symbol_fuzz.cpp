// Any bytes as a name of C++: it is one of bounded length, or none.
#include <cstdint>

#include "collector/symbol.h"
#include "trace/limits.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poolscope;
  const std::string name = "_Z" + std::string(reinterpret_cast<const char*>(data), size);
  if (Demangle(name).size() > kMaxSymbolBytes) __builtin_trap();
  return 0;
}
