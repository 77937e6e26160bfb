#pragma once

#include <cstddef>
#include <cstdint>

#include "agent/nvtx.h"

// The entries of the enumerations that the job has registered, for ever.

namespace poolscope::agent {

// The number of these entries, 0 where there are none or no more room. One thread at a time.
uint32_t RememberEnumeration(const nvtxPayloadEnum_t* entries, size_t count);

// The string id of the name of a value that is `bytes` wide; of several flags "A|B". 0: it has
// none. Any thread, inside an Inside.
uint32_t EnumerationName(uint32_t enumeration, uint64_t value, uint32_t bytes);

}  // namespace poolscope::agent
