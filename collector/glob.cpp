#include "collector/glob.h"

namespace poolscope {

bool GlobMatch(std::string_view pattern, std::string_view text, std::string_view* last_star) {
  constexpr size_t kNone = std::string_view::npos;
  size_t p = 0;
  size_t t = 0;
  size_t star = kNone;    // the last * met
  size_t star_begin = 0;  // where in the text its match begins
  size_t resume = 0;      // where to go on when the text after it does not fit
  while (t < text.size() || (p < pattern.size() && pattern[p] == '*')) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_begin = resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != kNone) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  if (p < pattern.size()) return false;
  if (last_star != nullptr && star != kNone) {
    const size_t tail = pattern.size() - star - 1;
    *last_star = text.substr(star_begin, text.size() - tail - star_begin);
  }
  return true;
}

}  // namespace poolscope
