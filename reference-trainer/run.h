#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reference-trainer/data.h"
#include "reference-trainer/journal.h"
#include "reference-trainer/options.h"
#include "reference-trainer/run_totals.h"
#include "reference-trainer/transport.h"

namespace poolscope::trainer {

// Called on the caller's thread for each step, in order.
using OnStep = std::function<void(const StepRecord&)>;
// Asked now and then on the caller's thread; true ends the run after the current step.
using ShouldStop = std::function<bool()>;

// Trains as `options` say; `corpus` is null where nothing is computed. Returns why the run failed,
// "" where it did not. `totals` may be null. With a transport (not yet started; closed afterwards)
// this is one of several processes that all call it; process 0 gets the steps.
std::string Train(const Options& options, const Corpus* corpus, const OnStep& on_step,
                  const ShouldStop& should_stop, RunTotals* totals = nullptr,
                  Transport* transport = nullptr);

}  // namespace poolscope::trainer
