#include "collector/number_set.h"

#include <charconv>

namespace poolscope {
namespace {

constexpr uint64_t kLargest = uint64_t{1} << 40;  // places of several ranges then cannot overflow

}  // namespace

std::optional<NumberSet> NumberSet::Parse(std::string_view text) {
  Ranges ranges;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto skip_spaces = [&] {
    while (at != end && *at == ' ') ++at;
  };
  const auto number = [&](uint64_t& value) {
    skip_spaces();
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value > kLargest) return false;
    at = next;
    skip_spaces();
    return true;
  };
  do {
    if (!ranges.empty()) ++at;  // the comma
    auto& [first, last] = ranges.emplace_back();
    if (!number(first)) return std::nullopt;
    last = first;
    if (at != end && *at == '-') {
      ++at;
      if (!number(last) || last < first) return std::nullopt;
    }
  } while (at != end && *at == ',');
  if (at != end) return std::nullopt;
  return NumberSet(std::move(ranges));
}

std::optional<uint64_t> NumberSet::PlaceOf(uint64_t number) const {
  uint64_t before = 0;
  for (const auto& [first, last] : ranges_) {
    if (number >= first && number <= last) return before + (number - first);
    before += last - first + 1;
  }
  return std::nullopt;
}

}  // namespace poolscope
