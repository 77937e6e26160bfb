#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reference-trainer/model/parameters.h"
#include "reference-trainer/model/ranges.h"

namespace poolscope::trainer {

// A model runs in stages, forward in this order and backward in reverse: the embedding, of each
// layer its dense part and, with experts, the experts that were chosen, the head.
struct Stage {
  enum class Kind { kEmbedding, kLayer, kExperts, kHead };
  Kind kind = Kind::kEmbedding;
  size_t layer = 0;  // kLayer, kExperts
};

std::vector<Stage> StagesOf(const GptShape& shape);

// Of each stage, the parameters whose gradients are complete once it has run backward, after those
// behind it: all parameters in order.
std::vector<Part> PartsOfStages(const GptShape& shape);

// The groups of parameters that a stage reads, as indices of Parameters::groups(). Of experts those
// with a load; load[experts] is empty as long as it is not known.
std::vector<size_t> GroupsOf(const GptShape& shape, const Stage& stage,
                             std::span<const uint64_t> load);

// Multiplications a token by matrices of weights. Experts count as if each had a device of its own:
// those of the most loaded one × experts; where load[experts] is empty, an even load.
double ProductsOf(const GptShape& shape, const Stage& stage, std::span<const uint64_t> load);

}  // namespace poolscope::trainer
