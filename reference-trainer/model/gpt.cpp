#include "reference-trainer/model/gpt.h"

namespace poolscope::trainer {

template <typename T>
Gpt<T>::Gpt(const GptShape& shape, size_t batch, Arithmetic<T>& arithmetic)
    : arithmetic_(arithmetic),
      shape_(shape),
      batch_(batch),
      rows_(batch * shape.context),
      parameters_(shape) {
  const size_t width = shape.width;
  layers_.resize(shape.layers);
  for (Layer& layer : layers_) {
    for (T** each : {&layer.input, &layer.norm1, &layer.norm2, &layer.attended, &layer.middle}) {
      *each = arithmetic.Allocate(rows_ * width);
    }
    for (T** each : {&layer.mean1, &layer.rstd1, &layer.mean2, &layer.rstd2}) {
      *each = arithmetic.Allocate(rows_);
    }
    layer.qkv = arithmetic.Allocate(rows_ * 3 * width);
    layer.weights = arithmetic.Allocate(batch * shape.heads * shape.context * shape.context);
    layer.expanded = arithmetic.Allocate(rows_ * 4 * width);
    layer.activated = arithmetic.Allocate(rows_ * 4 * width);
  }
  for (T** each : {&output_, &final_, &branch_, &d_residual_, &d_branch_}) {
    *each = arithmetic.Allocate(rows_ * width);
  }
  for (T** each : {&final_mean_, &final_rstd_, &losses_}) *each = arithmetic.Allocate(rows_);
  probabilities_ = arithmetic.Allocate(rows_ * kVocabulary);
  d_wide_ = arithmetic.Allocate(rows_ * 4 * width);
  d_wide2_ = arithmetic.Allocate(rows_ * 4 * width);
  d_scores_ = arithmetic.Allocate(batch * shape.heads * shape.context * shape.context);
}

template <typename T>
void Gpt<T>::Forward(std::span<const T> values, std::span<const uint8_t> tokens,
                     std::span<const uint8_t> targets) {
  const Parameters& at = parameters_;
  const size_t width = shape_.width;
  tokens_ = tokens;
  targets_ = targets;
  arithmetic_.Embed(rows_, shape_.context, width, tokens.data(), values.data() + at.token_embedding,
                    values.data() + at.position_embedding,
                    layers_.empty() ? output_ : layers_.front().input);
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    T* output = layer + 1 < layers_.size() ? layers_[layer + 1].input : output_;
    ForwardLayer(values.data() + layer * at.layer_stride, layers_[layer], output);
  }
  arithmetic_.LayerNorm(rows_, width, output_, values.data() + at.final_gain,
                        values.data() + at.final_bias, final_, final_mean_, final_rstd_);
  arithmetic_.Linear(rows_, width, kVocabulary, final_, values.data() + at.head_weight, nullptr,
                     probabilities_);
  arithmetic_.SoftmaxCrossEntropy(rows_, kVocabulary, probabilities_, targets.data(), losses_);
}

template <typename T>
double Gpt<T>::Loss() {
  return arithmetic_.Sum(rows_, losses_) / static_cast<double>(rows_);
}

// `values` is shifted so that layer 0's offsets are this layer's.
template <typename T>
void Gpt<T>::ForwardLayer(const T* values, Layer& layer, T* output) {
  const Parameters& at = parameters_;
  const size_t width = shape_.width;
  arithmetic_.LayerNorm(rows_, width, layer.input, values + at.norm1_gain, values + at.norm1_bias,
                        layer.norm1, layer.mean1, layer.rstd1);
  arithmetic_.Linear(rows_, width, 3 * width, layer.norm1, values + at.qkv_weight,
                     values + at.qkv_bias, layer.qkv);
  arithmetic_.Attention(batch_, shape_.context, width, shape_.heads, layer.qkv, layer.weights,
                        layer.attended);
  arithmetic_.Linear(rows_, width, width, layer.attended, values + at.projection_weight,
                     values + at.projection_bias, branch_);
  arithmetic_.Add(rows_ * width, layer.input, branch_, layer.middle);

  arithmetic_.LayerNorm(rows_, width, layer.middle, values + at.norm2_gain, values + at.norm2_bias,
                        layer.norm2, layer.mean2, layer.rstd2);
  arithmetic_.Linear(rows_, width, 4 * width, layer.norm2, values + at.expand_weight,
                     values + at.expand_bias, layer.expanded);
  arithmetic_.Gelu(rows_ * 4 * width, layer.expanded, layer.activated);
  arithmetic_.Linear(rows_, 4 * width, width, layer.activated, values + at.contract_weight,
                     values + at.contract_bias, branch_);
  arithmetic_.Add(rows_ * width, layer.middle, branch_, output);
}

template <typename T>
void Gpt<T>::Backward(std::span<const T> values, std::span<T> gradients) {
  const Parameters& at = parameters_;
  const size_t width = shape_.width;
  T* grad = gradients.data();
  arithmetic_.SoftmaxCrossEntropyBackward(rows_, kVocabulary, probabilities_, targets_.data());
  arithmetic_.LinearBackward(rows_, width, kVocabulary, final_, values.data() + at.head_weight,
                             probabilities_, d_branch_, grad + at.head_weight, nullptr);
  arithmetic_.Clear(rows_ * width, d_residual_);
  arithmetic_.LayerNormBackward(rows_, width, output_, values.data() + at.final_gain, final_mean_,
                                final_rstd_, d_branch_, d_residual_, grad + at.final_gain,
                                grad + at.final_bias);
  for (size_t layer = layers_.size(); layer-- > 0;) {
    BackwardLayer(values.data() + layer * at.layer_stride, layers_[layer],
                  grad + layer * at.layer_stride);
  }
  arithmetic_.EmbedBackward(rows_, shape_.context, width, tokens_.data(), d_residual_,
                            grad + at.token_embedding, grad + at.position_embedding);
}

// On entry d_residual_ is the gradient of the layer's output, on return of its input.
template <typename T>
void Gpt<T>::BackwardLayer(const T* values, const Layer& layer, T* gradients) {
  const Parameters& at = parameters_;
  const size_t width = shape_.width;
  arithmetic_.LinearBackward(rows_, 4 * width, width, layer.activated, values + at.contract_weight,
                             d_residual_, d_wide_, gradients + at.contract_weight,
                             gradients + at.contract_bias);
  arithmetic_.GeluBackward(rows_ * 4 * width, layer.expanded, d_wide_, d_wide2_);
  arithmetic_.LinearBackward(rows_, width, 4 * width, layer.norm2, values + at.expand_weight,
                             d_wide2_, d_branch_, gradients + at.expand_weight,
                             gradients + at.expand_bias);
  arithmetic_.LayerNormBackward(rows_, width, layer.middle, values + at.norm2_gain, layer.mean2,
                                layer.rstd2, d_branch_, d_residual_, gradients + at.norm2_gain,
                                gradients + at.norm2_bias);

  arithmetic_.LinearBackward(rows_, width, width, layer.attended, values + at.projection_weight,
                             d_residual_, d_branch_, gradients + at.projection_weight,
                             gradients + at.projection_bias);
  arithmetic_.AttentionBackward(batch_, shape_.context, width, shape_.heads, layer.qkv,
                                layer.weights, d_branch_, d_wide_, d_scores_);
  arithmetic_.LinearBackward(rows_, width, 3 * width, layer.norm1, values + at.qkv_weight, d_wide_,
                             d_branch_, gradients + at.qkv_weight, gradients + at.qkv_bias);
  arithmetic_.LayerNormBackward(rows_, width, layer.input, values + at.norm1_gain, layer.mean1,
                                layer.rstd1, d_branch_, d_residual_, gradients + at.norm1_gain,
                                gradients + at.norm1_bias);
}

template class Gpt<float>;
template class Gpt<double>;

}  // namespace poolscope::trainer
