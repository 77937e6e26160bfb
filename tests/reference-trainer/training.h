// What tests of whole runs in this process have in common.
#pragma once

#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <vector>

#include "reference-trainer/options.h"
#include "reference-trainer/run.h"

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

inline Options Small(Mode mode) {
  Options options;
  options.mode = mode;
  options.model = {1, 32, 2, 32, 4};
  options.steps = 200;
  return options;
}

inline Options Emulated(Mode mode) {
  Options options;
  options.mode = mode;
  options.devices.compute.kind = options.devices.update.kind = DeviceKind::kEmulated;
  options.math = false;
  options.forward_seconds = 0.001;
  options.backward_seconds = 0.001;
  options.update_seconds = 0.001;
  options.compute_workers = 4;
  options.steps = 60;
  return options;
}

inline std::vector<StepRecord> TrainAll(const Options& options, const Corpus& corpus = Text(),
                                        RunTotals* totals = nullptr) {
  std::vector<StepRecord> records;
  const std::string failure = Train(
      options, options.math ? &corpus : nullptr,
      [&](const StepRecord& record) { records.push_back(record); }, [] { return false; }, totals);
  EXPECT_EQ(failure, "");
  EXPECT_EQ(records.size(), options.steps);
  for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(records[i].step, i);
  return records;
}

}  // namespace poolscope::trainer
