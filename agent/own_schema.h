#pragma once

#include <cstdint>

// Payload schemas that the agent itself adds to events. Their fields are numbers or string ids.

namespace poolscope::agent {

enum class OwnSchema : uint32_t {
  kColor,   // nvtx.color   color: 0xAARRGGBB
  kObject,  // nvtx.object  what, kind (strings), id: of a mark named as the object
  kSync,    // nvtx.sync    what (string), object (its number), domain (string)
  kScope,   // nvtx.scope   scope (string): of events that came in a batch
  kUints,   // nvtx.uints   values (array): a payload of plain values, likewise the next three
  kInts,
  kDoubles,
  kStrings,
};

// The string id of its name. 0: the session has no room for it (counted). Takes locks when it is
// new.
uint32_t OwnSchemaName(OwnSchema schema);

}  // namespace poolscope::agent
