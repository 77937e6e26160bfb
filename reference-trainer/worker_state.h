#pragma once

#include <cstdint>
#include <functional>

#include "reference-trainer/job.h"

namespace poolscope::trainer {

// What the owner of shard `index` gives to the checkpoint after `step` updates, where one is due;
// `last`: the run has ended with that. `more` (may be empty) copies what else it has. Throws
// Abandoned where the run has failed.
void GiveShard(Job& job, Device& device, Shard* shard, size_t index, uint64_t step, bool last,
               const std::function<void(TrainingState&)>& more);

// The same of compute worker `index`: its replica in a full one, and with `residual` the error
// feedback of its gradients, in the place that it gets.
void GiveReplica(Job& job, Device& device, Replica* replica, size_t index, uint64_t step, bool last,
                 const std::function<void(std::span<float>)>& residual);

// The error feedback that compute worker `index` goes on with; empty: none. Where there are other
// compute workers than before, what those that have gone had not sent is shared out.
std::vector<float> ResidualOf(const TrainingState& state, size_t index, size_t workers);

}  // namespace poolscope::trainer
