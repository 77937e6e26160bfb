// What tests of whole runs in this process have in common.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reference-trainer/options.h"
#include "reference-trainer/run.h"
#include "tests/reference-trainer/text.h"

namespace poolscope::trainer {

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

// Asked to stop after five steps, the run ends after a whole one, long before its last.
inline void ExpectStops(Options options) {
  options.steps = 100'000;
  size_t steps = 0;
  const auto count = [&](const StepRecord&) { ++steps; };
  EXPECT_EQ(Train(options, nullptr, count, [&] { return steps >= 5; }), "");
  EXPECT_GE(steps, 5u);
  EXPECT_LT(steps, 1000u);
}

}  // namespace poolscope::trainer
