// What runs of tests learn.
#pragma once

#include <iterator>
#include <string>
#include <vector>

#include "reference-trainer/data.h"

namespace poolscope::trainer {

// A text with structure, of the test's own: sentences put together from few words.
inline const Corpus& Text() {
  static const Corpus corpus = [] {
    const char* words[] = {"the ", "pool ",  "waits ", "for ", "a ",     "link ",
                           "and ", "sends ", "every ", "new ", "weight "};
    std::vector<uint8_t> bytes;
    uint64_t state = 1;
    while (bytes.size() < 40'000) {
      const std::string word = words[SplitMix64(state) % std::size(words)];
      bytes.insert(bytes.end(), word.begin(), word.end());
    }
    return Corpus("words", bytes);
  }();
  return corpus;
}

}  // namespace poolscope::trainer
