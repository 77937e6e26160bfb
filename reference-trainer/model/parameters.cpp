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

size_t Parameters::Add(const std::string& name, size_t size, bool matrix) {
  tensors_.push_back({name, size_, size, matrix});
  size_ += size;
  return size_ - size;
}

Parameters::Parameters(const GptShape& shape) {
  const size_t width = shape.width;
  token_embedding = Add("token_embedding", kVocabulary * width, true);
  position_embedding = Add("position_embedding", shape.context * width, true);
  for (size_t layer = 0; layer < shape.layers; ++layer) {
    const std::string at = "layer" + std::to_string(layer) + ".";
    const size_t begin = size_;
    const size_t norm1_gain_at = Add(at + "norm1.gain", width, false);
    const size_t norm1_bias_at = Add(at + "norm1.bias", width, false);
    const size_t qkv_weight_at = Add(at + "qkv.weight", 3 * width * width, true);
    const size_t qkv_bias_at = Add(at + "qkv.bias", 3 * width, false);
    const size_t projection_weight_at = Add(at + "projection.weight", width * width, true);
    const size_t projection_bias_at = Add(at + "projection.bias", width, false);
    const size_t norm2_gain_at = Add(at + "norm2.gain", width, false);
    const size_t norm2_bias_at = Add(at + "norm2.bias", width, false);
    const size_t expand_weight_at = Add(at + "expand.weight", 4 * width * width, true);
    const size_t expand_bias_at = Add(at + "expand.bias", 4 * width, false);
    const size_t contract_weight_at = Add(at + "contract.weight", 4 * width * width, true);
    const size_t contract_bias_at = Add(at + "contract.bias", width, false);
    if (layer > 0) continue;
    layer_stride = size_ - begin;
    norm1_gain = norm1_gain_at, norm1_bias = norm1_bias_at;
    qkv_weight = qkv_weight_at, qkv_bias = qkv_bias_at;
    projection_weight = projection_weight_at, projection_bias = projection_bias_at;
    norm2_gain = norm2_gain_at, norm2_bias = norm2_bias_at;
    expand_weight = expand_weight_at, expand_bias = expand_bias_at;
    contract_weight = contract_weight_at, contract_bias = contract_bias_at;
  }
  final_gain = Add("final_norm.gain", width, false);
  final_bias = Add("final_norm.bias", width, false);
  head_weight = shape.untied_head ? Add("head.weight", kVocabulary * width, true) : token_embedding;
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
