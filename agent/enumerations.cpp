#include "agent/enumerations.h"

#include <algorithm>

#include "agent/text.h"

namespace poolscope::agent {
namespace {

constexpr uint32_t kMaxEntries = 16384;  // of all
constexpr uint32_t kMaxEnumerations = 1024;

struct Entry {
  uint64_t value;
  uint32_t name;  // string id
  bool is_flag;

  bool operator==(const Entry&) const = default;
};

// Written before their number is known to anyone, and never after.
Entry entries[kMaxEntries];
struct {
  uint32_t first, count;
} enumerations[kMaxEnumerations];  // from 1
uint32_t entry_count = 0, enumeration_count = 0;

}  // namespace

uint32_t RememberEnumeration(const nvtxPayloadEnum_t* given, size_t count) {
  if (given == nullptr || count == 0 || count > kMaxEntries - entry_count ||
      enumeration_count + 1 == kMaxEnumerations) {
    return 0;
  }
  Entry* const fresh = entries + entry_count;
  for (size_t i = 0; i < count; ++i) {
    fresh[i] = {given[i].value, InternText(given[i].name), given[i].isFlag != 0};
  }
  for (uint32_t i = 1; i <= enumeration_count; ++i) {
    const Entry* known = entries + enumerations[i].first;
    if (enumerations[i].count == count && std::equal(known, known + count, fresh)) return i;
  }
  enumerations[++enumeration_count] = {entry_count, static_cast<uint32_t>(count)};
  entry_count += static_cast<uint32_t>(count);
  return enumeration_count;
}

uint32_t EnumerationName(uint32_t enumeration, uint64_t value, uint32_t bytes) {
  const uint64_t mask = bytes >= 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * bytes) - 1;
  value &= mask;
  const Entry* const first = entries + enumerations[enumeration].first;
  const Entry* const last = first + enumerations[enumeration].count;
  for (const Entry* entry = first; entry != last; ++entry) {
    if ((entry->value & mask) == value) return entry->name;
  }
  uint32_t name = 0;
  for (const Entry* entry = first; entry != last; ++entry) {
    const uint64_t bits = entry->value & mask;
    if (entry->is_flag && bits != 0 && (value & bits) == bits) {
      name = InternJoined(name, '|', entry->name);
    }
  }
  return name;
}

}  // namespace poolscope::agent
