#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace poolscope {

// Numbers as a mapping writes them: "0-7,12". Empty: any number, and none at all.
class NumberSet {
 public:
  // No value: the text is not of that form, or a range runs backwards.
  static std::optional<NumberSet> Parse(std::string_view text);
  static NumberSet Of(uint64_t number) { return NumberSet({{number, number}}); }
  NumberSet() = default;

  bool any() const { return ranges_.empty(); }
  bool Contains(uint64_t number) const { return PlaceOf(number).has_value(); }
  // How many numbers of the set, in the order written, come before this one; none: it is not in it.
  std::optional<uint64_t> PlaceOf(uint64_t number) const;

 private:
  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;  // first and last
  explicit NumberSet(Ranges ranges) : ranges_(std::move(ranges)) {}
  Ranges ranges_;
};

}  // namespace poolscope
