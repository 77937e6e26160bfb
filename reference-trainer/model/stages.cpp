#include "reference-trainer/model/stages.h"

#include <algorithm>
#include <numeric>

namespace poolscope::trainer {

std::vector<Stage> StagesOf(const GptShape& shape) {
  std::vector<Stage> stages = {{Stage::Kind::kEmbedding, 0}};
  for (size_t layer = 0; layer < shape.layers; ++layer) {
    stages.push_back({Stage::Kind::kLayer, layer});
    if (shape.experts > 0) stages.push_back({Stage::Kind::kExperts, layer});
  }
  stages.push_back({Stage::Kind::kHead, 0});
  return stages;
}

std::vector<Part> PartsOfStages(const GptShape& shape) {
  const Parameters parameters(shape);
  const std::vector<uint64_t> all_experts(shape.experts, 1);
  std::vector<Part> parts;
  for (const Stage& stage : StagesOf(shape)) {
    parts.push_back({parameters.groups()[GroupsOf(shape, stage, all_experts).front()].begin,
                     parameters.size()});
    if (parts.size() > 1) parts[parts.size() - 2].end = parts.back().begin;
  }
  return parts;
}

std::vector<size_t> GroupsOf(const GptShape& shape, const Stage& stage,
                             std::span<const uint64_t> load) {
  constexpr size_t kEmbedding = 0;
  const size_t layer = 1 + stage.layer * (1 + shape.experts);
  std::vector<size_t> groups;
  switch (stage.kind) {
    case Stage::Kind::kEmbedding:
      return {kEmbedding};
    case Stage::Kind::kLayer:
      return {layer};
    case Stage::Kind::kExperts:
      for (size_t e = 0; e < load.size(); ++e) {
        if (load[e] > 0) groups.push_back(layer + 1 + e);
      }
      return groups;
    case Stage::Kind::kHead:
      groups = {1 + shape.layers * (1 + shape.experts)};
      if (!shape.untied_head) groups.push_back(kEmbedding);
      return groups;
  }
  return groups;
}

double ProductsOf(const GptShape& shape, const Stage& stage, std::span<const uint64_t> load) {
  const auto width = static_cast<double>(shape.width);
  const double mlp = 8 * width * width, attention = 4 * width * width;
  switch (stage.kind) {
    case Stage::Kind::kEmbedding:
      return 0;
    case Stage::Kind::kLayer:
      return attention + (shape.experts > 0 ? 0 : mlp);
    case Stage::Kind::kExperts: {
      double imbalance = 1;  // most loaded ÷ mean
      if (!load.empty()) {
        const auto total = static_cast<double>(std::accumulate(load.begin(), load.end(), 0ULL));
        const auto most = static_cast<double>(*std::max_element(load.begin(), load.end()));
        imbalance = most * static_cast<double>(load.size()) / total;
      }
      return mlp * static_cast<double>(shape.experts_per_token) * imbalance;
    }
    case Stage::Kind::kHead:
      return static_cast<double>(kVocabulary) * width;
  }
  return 0;
}

}  // namespace poolscope::trainer
