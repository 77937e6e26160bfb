#pragma once

#include "reference-trainer/job.h"

namespace poolscope::trainer {

// The whole training on one worker: what disaggregated training is compared with.
void RunMonolithic(Job& job);

}  // namespace poolscope::trainer
