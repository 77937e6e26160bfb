#pragma once

#include <cstdint>

#include "trace/thread_writer.h"

namespace poolscope::agent {

// Records that an object of the job was created, named or destroyed, as a mark in domain
// "nvtx.object" with the payload nvtx.object. `name` is a string id, 0 none. Call it inside.
void MarkObject(ThreadWriter& writer, const char* what, const char* kind, uint64_t id,
                uint32_t name);

// What an NVTX resource type (class << 16 | index) stands for.
const char* ResourceKind(uint32_t type);

}  // namespace poolscope::agent
