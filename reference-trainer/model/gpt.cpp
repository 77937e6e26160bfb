#include "reference-trainer/model/gpt.h"

#include <algorithm>

#include "reference-trainer/model/kernels.h"

namespace poolscope::trainer {

template <typename T>
Gpt<T>::Gpt(const GptShape& shape, size_t batch)
    : shape_(shape), batch_(batch), rows_(batch * shape.context), parameters_(shape) {
  const size_t width = shape.width;
  layers_.resize(shape.layers);
  for (Layer& layer : layers_) {
    for (auto* each : {&layer.input, &layer.norm1, &layer.norm2, &layer.attended, &layer.middle}) {
      each->resize(rows_ * width);
    }
    for (auto* each : {&layer.mean1, &layer.rstd1, &layer.mean2, &layer.rstd2}) {
      each->resize(rows_);
    }
    layer.qkv.resize(rows_ * 3 * width);
    layer.weights.resize(batch * shape.heads * shape.context * shape.context);
    layer.expanded.resize(rows_ * 4 * width);
    layer.activated.resize(rows_ * 4 * width);
  }
  for (auto* each : {&output_, &final_, &branch_, &d_residual_, &d_branch_}) {
    each->resize(rows_ * width);
  }
  final_mean_.resize(rows_);
  final_rstd_.resize(rows_);
  probabilities_.resize(rows_ * kVocabulary);
  d_wide_.resize(rows_ * 4 * width);
  d_wide2_.resize(rows_ * 4 * width);
  d_scores_.resize(shape.context * shape.context);
}

template <typename T>
double Gpt<T>::Forward(std::span<const T> values, std::span<const uint8_t> tokens,
                       std::span<const uint8_t> targets) {
  const Parameters& at = parameters_;
  const size_t width = shape_.width;
  tokens_ = tokens;
  targets_ = targets;
  std::vector<T>& embedded = layers_.empty() ? output_ : layers_.front().input;
  for (size_t row = 0; row < rows_; ++row) {
    const T* token = values.data() + at.token_embedding + tokens[row] * width;
    const T* position = values.data() + at.position_embedding + (row % shape_.context) * width;
    for (size_t i = 0; i < width; ++i) embedded[row * width + i] = token[i] + position[i];
  }
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    std::vector<T>& output = layer + 1 < layers_.size() ? layers_[layer + 1].input : output_;
    ForwardLayer(values.data() + layer * at.layer_stride, layers_[layer], output);
  }
  LayerNorm(rows_, width, output_.data(), values.data() + at.final_gain,
            values.data() + at.final_bias, final_.data(), final_mean_.data(), final_rstd_.data());
  Linear<T>(rows_, width, kVocabulary, final_.data(), values.data() + at.head_weight, nullptr,
            probabilities_.data());
  return SoftmaxCrossEntropy(rows_, kVocabulary, probabilities_.data(), targets.data()) /
         static_cast<double>(rows_);
}

// `values` is shifted so that layer 0's offsets are this layer's.
template <typename T>
void Gpt<T>::ForwardLayer(const T* values, Layer& layer, std::vector<T>& output) {
  const Parameters& at = parameters_;
  const size_t width = shape_.width;
  LayerNorm(rows_, width, layer.input.data(), values + at.norm1_gain, values + at.norm1_bias,
            layer.norm1.data(), layer.mean1.data(), layer.rstd1.data());
  Linear(rows_, width, 3 * width, layer.norm1.data(), values + at.qkv_weight, values + at.qkv_bias,
         layer.qkv.data());
  Attention(batch_, shape_.context, width, shape_.heads, layer.qkv.data(), layer.weights.data(),
            layer.attended.data());
  Linear(rows_, width, width, layer.attended.data(), values + at.projection_weight,
         values + at.projection_bias, branch_.data());
  for (size_t i = 0; i < rows_ * width; ++i) layer.middle[i] = layer.input[i] + branch_[i];

  LayerNorm(rows_, width, layer.middle.data(), values + at.norm2_gain, values + at.norm2_bias,
            layer.norm2.data(), layer.mean2.data(), layer.rstd2.data());
  Linear(rows_, width, 4 * width, layer.norm2.data(), values + at.expand_weight,
         values + at.expand_bias, layer.expanded.data());
  Gelu(rows_ * 4 * width, layer.expanded.data(), layer.activated.data());
  Linear(rows_, 4 * width, width, layer.activated.data(), values + at.contract_weight,
         values + at.contract_bias, branch_.data());
  for (size_t i = 0; i < rows_ * width; ++i) output[i] = layer.middle[i] + branch_[i];
}

template <typename T>
void Gpt<T>::Backward(std::span<const T> values, std::span<T> gradients) {
  const Parameters& at = parameters_;
  const size_t width = shape_.width;
  T* grad = gradients.data();
  SoftmaxCrossEntropyBackward(rows_, kVocabulary, probabilities_.data(), targets_.data());
  LinearBackward<T>(rows_, width, kVocabulary, final_.data(), values.data() + at.head_weight,
                    probabilities_.data(), d_branch_.data(), grad + at.head_weight, nullptr);
  std::fill(d_residual_.begin(), d_residual_.end(), T{0});
  LayerNormBackward(rows_, width, output_.data(), values.data() + at.final_gain, final_mean_.data(),
                    final_rstd_.data(), d_branch_.data(), d_residual_.data(), grad + at.final_gain,
                    grad + at.final_bias);
  for (size_t layer = layers_.size(); layer-- > 0;) {
    BackwardLayer(values.data() + layer * at.layer_stride, layers_[layer],
                  grad + layer * at.layer_stride);
  }
  for (size_t row = 0; row < rows_; ++row) {
    T* token = grad + at.token_embedding + tokens_[row] * width;
    T* position = grad + at.position_embedding + (row % shape_.context) * width;
    for (size_t i = 0; i < width; ++i) {
      token[i] += d_residual_[row * width + i];
      position[i] += d_residual_[row * width + i];
    }
  }
}

// On entry d_residual_ is the gradient of the layer's output, on return of its input.
template <typename T>
void Gpt<T>::BackwardLayer(const T* values, const Layer& layer, T* gradients) {
  const Parameters& at = parameters_;
  const size_t width = shape_.width;
  LinearBackward(rows_, 4 * width, width, layer.activated.data(), values + at.contract_weight,
                 d_residual_.data(), d_wide_.data(), gradients + at.contract_weight,
                 gradients + at.contract_bias);
  GeluBackward(rows_ * 4 * width, layer.expanded.data(), d_wide_.data(), d_wide2_.data());
  LinearBackward(rows_, width, 4 * width, layer.norm2.data(), values + at.expand_weight,
                 d_wide2_.data(), d_branch_.data(), gradients + at.expand_weight,
                 gradients + at.expand_bias);
  LayerNormBackward(rows_, width, layer.middle.data(), values + at.norm2_gain, layer.mean2.data(),
                    layer.rstd2.data(), d_branch_.data(), d_residual_.data(),
                    gradients + at.norm2_gain, gradients + at.norm2_bias);

  LinearBackward(rows_, width, width, layer.attended.data(), values + at.projection_weight,
                 d_residual_.data(), d_branch_.data(), gradients + at.projection_weight,
                 gradients + at.projection_bias);
  AttentionBackward(batch_, shape_.context, width, shape_.heads, layer.qkv.data(),
                    layer.weights.data(), d_branch_.data(), d_wide_.data(), d_scores_.data());
  LinearBackward(rows_, width, 3 * width, layer.norm1.data(), values + at.qkv_weight,
                 d_wide_.data(), d_branch_.data(), gradients + at.qkv_weight,
                 gradients + at.qkv_bias);
  LayerNormBackward(rows_, width, layer.input.data(), values + at.norm1_gain, layer.mean1.data(),
                    layer.rstd1.data(), d_branch_.data(), d_residual_.data(),
                    gradients + at.norm1_gain, gradients + at.norm1_bias);
}

template class Gpt<float>;
template class Gpt<double>;

}  // namespace poolscope::trainer
