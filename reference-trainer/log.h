#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reference-trainer/data.h"
#include "reference-trainer/journal.h"
#include "reference-trainer/options.h"
#include "reference-trainer/run_totals.h"

namespace poolscope::trainer {

// The figures of a run that its log ends with. The first tenth of the steps is left out of times.
struct Summary {
  uint64_t steps = 0;
  std::optional<double> step_seconds_median;
  std::optional<double> tokens_per_second;
  std::optional<double> final_loss;  // mean of the last 20 steps
};
Summary Summarize(const std::vector<StepRecord>& records);

// Prints the run to stdout, and as JSON lines to a file where one is given. One thread.
class Log {
 public:
  explicit Log(const Options& options);

  // The reason why --json-log cannot be written, or "".
  std::string OpenJson();

  void Header(const Corpus* corpus, size_t parameters);
  void Step(const StepRecord& record);
  // True where everything was written.
  bool Finish(const RunTotals& totals);

 private:
  void PrintState();
  std::string StateJson() const;
  void PrintLine(const StepRecord& record);
  void WriteJson(const std::string& line);
  template <typename... Args>
  void Print(fmt::format_string<Args...> format, Args&&... args);
  void Flush();

  const Options& options_;
  const bool terminal_;
  std::unique_ptr<FILE, int (*)(FILE*)> json_{nullptr, &std::fclose};
  bool json_failed_ = false;
  int stdout_error_ = 0;  // errno of the first failed write, 0 where none failed
  std::vector<StepRecord> records_;
  size_t printed_ = 0;  // records that the lines so far cover
};

}  // namespace poolscope::trainer
