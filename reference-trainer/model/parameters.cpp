#include "reference-trainer/model/parameters.h"

#include <cmath>
#include <numbers>

#include "reference-trainer/data.h"

namespace poolscope::trainer {
namespace {

constexpr double kDeviation = 0.08;  // suits widths of 32 to 128

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

double Uniform(uint64_t& state) {  // in (0, 1)
  return (static_cast<double>(SplitMix64(state) >> 11) + 0.5) * 0x1p-53;
}

double Normal(uint64_t& state) {  // Box, Muller 1958
  const double radius = std::sqrt(-2 * std::log(Uniform(state)));
  return radius * std::cos(2 * std::numbers::pi * Uniform(state));
}

}  // namespace

void Parameters::Add(size_t& first, const std::string& name, size_t size, bool matrix) {
  if (first == kNone) first = size_;
  tensors_.push_back({name, size_, size, matrix});
  size_ += size;
}

void Parameters::EndGroup(const std::string& name) {
  groups_.push_back({name, groups_.empty() ? 0 : groups_.back().end, size_});
}

void Parameters::AddMlp(size_t width, const std::string& at) {
  Add(expand_weight, at + "expand.weight", 4 * width * width, true);
  Add(expand_bias, at + "expand.bias", 4 * width, false);
  Add(contract_weight, at + "contract.weight", 4 * width * width, true);
  Add(contract_bias, at + "contract.bias", width, false);
}

void Parameters::AddLayer(const GptShape& shape, const std::string& name) {
  const size_t width = shape.width;
  const std::string at = name + ".";
  Add(norm1_gain, at + "norm1.gain", width, false);
  Add(norm1_bias, at + "norm1.bias", width, false);
  Add(qkv_weight, at + "qkv.weight", 3 * width * width, true);
  Add(qkv_bias, at + "qkv.bias", 3 * width, false);
  Add(projection_weight, at + "projection.weight", width * width, true);
  Add(projection_bias, at + "projection.bias", width, false);
  Add(norm2_gain, at + "norm2.gain", width, false);
  Add(norm2_bias, at + "norm2.bias", width, false);
  if (shape.experts == 0) {
    AddMlp(width, at);
    EndGroup(name);
    return;
  }
  Add(router_weight, at + "router.weight", shape.experts * width, true);
  EndGroup(name);
  for (size_t expert = 0; expert < shape.experts; ++expert) {
    const std::string expert_name = at + "expert" + std::to_string(expert);
    const size_t begin = size_;
    AddMlp(width, expert_name + ".");
    EndGroup(expert_name);
    expert_stride = size_ - begin;
  }
}

Parameters::Parameters(const GptShape& shape) {
  const size_t width = shape.width;
  Add(token_embedding, "token_embedding", kVocabulary * width, true);
  Add(position_embedding, "position_embedding", shape.context * width, true);
  EndGroup("embedding");
  for (size_t layer = 0; layer < shape.layers; ++layer) {
    const size_t begin = size_;
    AddLayer(shape, "layer" + std::to_string(layer));
    layer_stride = size_ - begin;
  }
  Add(final_gain, "final_norm.gain", width, false);
  Add(final_bias, "final_norm.bias", width, false);
  if (shape.untied_head) {
    Add(head_weight, "head.weight", kVocabulary * width, true);
  } else {
    head_weight = token_embedding;
  }
  EndGroup("head");
}

template <typename T>
std::vector<T> InitialParameters(const GptShape& shape, uint64_t seed) {
  const Parameters parameters(shape);
  std::vector<T> values(parameters.size());
  uint64_t state = seed ^ 0x6A09E667F3BCC908;
  const double residual = 1 / std::sqrt(2.0 * static_cast<double>(shape.layers));
  for (const Tensor& tensor : parameters.tensors()) {
    const bool branch_end =
        EndsWith(tensor.name, "projection.weight") || EndsWith(tensor.name, "contract.weight");
    for (size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      if (tensor.matrix) {
        values[i] = static_cast<T>(kDeviation * (branch_end ? residual : 1) * Normal(state));
      } else {
        values[i] = EndsWith(tensor.name, "gain") ? T{1} : T{0};
      }
    }
  }
  return values;
}

template std::vector<float> InitialParameters<float>(const GptShape&, uint64_t);
template std::vector<double> InitialParameters<double>(const GptShape&, uint64_t);

}  // namespace poolscope::trainer
