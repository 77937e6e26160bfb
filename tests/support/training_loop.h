#pragma once

#include <vector>

#include "reference-trainer/model/parameters.h"
#include "reference-trainer/model/ranges.h"
#include "reference-trainer/model/replica.h"
#include "reference-trainer/model/shard.h"

namespace poolscope::trainer {

struct TrainingCase {
  GptShape shape;
  size_t batch, micro_batches;
  uint64_t seed;
};
Ranges AllOf(const TrainingCase& training);

struct OwnedShard {
  Shard* shard;
  Ranges ranges;
};
// Mean loss of each of `steps` steps on a made-up text that a model can learn: gradients go to the
// shards, weights back.
std::vector<double> LossesOf(const TrainingCase& training, Replica& replica,
                             const std::vector<OwnedShard>& shards, int steps);

}  // namespace poolscope::trainer
