#include "collector/symbol.h"

#include <libiberty/demangle.h>

#include <csetjmp>

#include "trace/limits.h"

namespace poolscope {
namespace {

struct Output {
  std::string text;
  jmp_buf full;
};

void Append(const char* part, size_t bytes, void* to) {
  auto* output = static_cast<Output*>(to);
  if (output->text.size() + bytes > kMaxSymbolBytes) longjmp(output->full, 1);
  output->text.append(part, bytes);
}

// A name of a few bytes may stand for one of gigabytes, which libiberty prints piece by piece, all
// of it: the way out is a jump. It passes libiberty's own frames alone, in C and without memory to
// give back, as this variant asks for none.
bool Print(const char* mangled, Output* output) {
  if (setjmp(output->full) != 0) return false;
  return cplus_demangle_v3_callback(mangled, DMGL_PARAMS | DMGL_ANSI | DMGL_NO_RECURSE_LIMIT,
                                    Append, output) != 0;
}

}  // namespace

std::string Demangle(std::string_view mangled) {
  if (!mangled.starts_with("_Z") || mangled.size() > kMaxStringBytes) return {};
  Output output;
  output.text.reserve(kMaxSymbolBytes);  // Append asks for no memory
  const std::string terminated(mangled);
  if (!Print(terminated.c_str(), &output)) return {};
  return std::string(output.text);
}

}  // namespace poolscope
