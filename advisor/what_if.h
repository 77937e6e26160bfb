#pragma once

#include <optional>
#include <string>

#include "advisor/knobs.h"
#include "advisor/prediction.h"
#include "advisor/report.h"
#include "advisor/search.h"
#include "store/store.h"

// `poolscope what-if`: the replay beside what was measured, and the prediction of given changes.
namespace poolscope {

struct WhatIfAnswer {
  std::string run;
  double step_seconds = 0;        // measured; as Prediction::baseline_seconds, else median
  std::string producer, updater;  // names of the pools
  Replay replay;
  Changes changes;
  std::optional<Prediction> prediction;  // none where the replay refuses or it stands still
  std::optional<Recommendation> change;  // the prediction in the words of the report
  std::vector<std::string> limits;       // why the change cannot be made all the same
  std::string refused;                   // why there is no prediction
};

// What is wrong with the question, as against with the run: an unknown knob or a bad value.
struct WhatIfError {
  bool usage = false;
  std::string message;
};

struct WhatIfResult {
  std::optional<WhatIfAnswer> answer;
  WhatIfError error;  // where there is no answer
};

// Without changes: the replay alone.
WhatIfResult AskWhatIf(const Store& store, const std::string& run, const Changes& changes);

std::string WhatIfAsText(const WhatIfAnswer& answer);
std::string WhatIfAsJson(const WhatIfAnswer& answer);  // schema poolscope.what_if/1, docs/report.md

}  // namespace poolscope
