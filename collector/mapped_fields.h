#pragma once

#include <cstdint>
#include <span>

#include "collector/activity.h"
#include "collector/mapping.h"
#include "trace/session_reader.h"

namespace poolscope {

// What an event carries, as a session has it.
struct Carried {
  std::span<const uint64_t> payload;  // groups
  uint64_t value = 0;                 // NVTX's plain payload, or 0
  bool value_is_float = false;
  const SessionDefinitions& known;
};

// Sets the fields of `out` that the rule gives, as constants or from what the event carries. What
// the event does not carry stays as it is.
void TakeRuleFields(const Mapping::RangeRule& rule, const Carried& carried, Activity& out);

}  // namespace poolscope
