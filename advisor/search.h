#pragma once

#include "advisor/advice.h"
#include "advisor/pool_limits.h"
#include "advisor/prediction.h"
#include "advisor/run_data.h"
#include "store/store.h"

namespace poolscope {

// Everything the what-if needs of a run, from the store to the predictor.
struct WhatIf {
  RunData run;
  AnalysedSpan span;
  PoolLimits limits;
  EventRecords records;
  Replay replay;
  std::optional<Calibrated> calibrated;  // absent where replay.refused says why
  Predictor::Run measured;
  double tokens_per_second = 0;  // accepted, in the analysed span; 0 where not told
};
Result<WhatIf> PrepareWhatIf(const Store& store, RunData run, const AnalysedSpan& span, bool quick);

// Tries pool ratios of the same devices, buffer depths to 16 and bf16, each alone; what pays, of
// what the pools' limits allow.
Advice Search(const WhatIf& what_if, bool quick);

// The recommendation that a prediction amounts to.
Recommendation Recommend(const WhatIf& what_if, const Prediction& prediction,
                         const std::string& kind, const Changes& changes);

}  // namespace poolscope
