#pragma once

#include <stdarg.h>
#include <stdio.h>

namespace poolscope {

// Why the agent is off, for a person, in one line. The parts that run inside a job use it in place
// of Status: it allocates nothing, and the job's allocator may itself be under observation.
struct Reason {
  char text[512] = {};

  [[gnu::format(printf, 2, 3)]] void Set(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
  }
};

}  // namespace poolscope
