#include "reference-trainer/model/gpt.h"

namespace poolscope::trainer {

template <typename T>
Gpt<T>::Gpt(const GptShape& shape, size_t batch, Arithmetic<T>& arithmetic)
    : arithmetic_(arithmetic),
      shape_(shape),
      batch_(batch),
      rows_(batch * shape.context),
      parameters_(shape),
      stages_(StagesOf(shape)) {
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
    if (shape.experts > 0) {
      experts_.emplace_back(shape, parameters_, rows_);
      continue;
    }
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
  Begin(tokens, targets);
  for (size_t stage = 0; stage < stages_.size(); ++stage) ForwardStage(stage, values);
}

template <typename T>
void Gpt<T>::Backward(std::span<const T> values, std::span<T> gradients) {
  for (size_t stage = stages_.size(); stage-- > 0;) BackwardStage(stage, values, gradients);
}

template <typename T>
double Gpt<T>::Loss() {
  return arithmetic_.Sum(rows_, losses_) / static_cast<double>(rows_);
}

template <typename T>
double Gpt<T>::BalanceLoss() const {
  double sum = 0;
  for (const Experts<T>& each : experts_) sum += each.balance_loss();
  return sum;
}

template <typename T>
std::span<const uint64_t> Gpt<T>::ExpertLoad(size_t layer) const {
  return experts_.empty() ? std::span<const uint64_t>{} : experts_[layer].load();
}

template <typename T>
void Gpt<T>::Begin(std::span<const uint8_t> tokens, std::span<const uint8_t> targets) {
  tokens_ = tokens;
  targets_ = targets;
  rows_ = tokens.size();
  batch_ = rows_ / shape_.context;
}

template <typename T>
void Gpt<T>::ForwardStage(size_t stage, std::span<const T> values) {
  const auto [kind, layer] = stages_[stage];
  const T* shifted = values.data() + layer * parameters_.layer_stride;
  switch (kind) {
    case Stage::Kind::kEmbedding:
      return arithmetic_.Embed(rows_, shape_.context, shape_.width, tokens_.data(),
                               values.data() + parameters_.token_embedding,
                               values.data() + parameters_.position_embedding,
                               layers_.empty() ? output_ : layers_.front().input);
    case Stage::Kind::kLayer:
      ForwardAttention(shifted, layers_[layer]);
      if (!experts_.empty()) return experts_[layer].Route(shifted, layers_[layer].norm2);
      ForwardMlp(shifted, layers_[layer]);
      return AddBranch(layer);
    case Stage::Kind::kExperts:
      experts_[layer].Forward(shifted, layers_[layer].norm2, branch_);
      return AddBranch(layer);
    case Stage::Kind::kHead:
      return ForwardHead(values.data());
  }
}

template <typename T>
void Gpt<T>::BackwardStage(size_t stage, std::span<const T> values, std::span<T> gradients) {
  const auto [kind, layer] = stages_[stage];
  const size_t shift = layer * parameters_.layer_stride;
  const T* shifted = values.data() + shift;
  T* grad = gradients.data() + shift;
  switch (kind) {
    case Stage::Kind::kEmbedding:
      return arithmetic_.EmbedBackward(rows_, shape_.context, shape_.width, tokens_.data(),
                                       d_residual_, grad + parameters_.token_embedding,
                                       grad + parameters_.position_embedding);
    case Stage::Kind::kLayer:
      if (experts_.empty()) {
        BackwardMlp(shifted, layers_[layer], grad);
      } else {
        experts_[layer].RouteBackward(shifted, layers_[layer].norm2, d_branch_, grad);
      }
      return BackwardAttention(shifted, layers_[layer], grad);
    case Stage::Kind::kExperts:
      return experts_[layer].Backward(shifted, d_residual_, d_branch_, grad);
    case Stage::Kind::kHead:
      return BackwardHead(values.data(), grad);
  }
}

template <typename T>
void Gpt<T>::ForwardAttention(const T* values, Layer& layer) {
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
}

template <typename T>
void Gpt<T>::ForwardMlp(const T* values, Layer& layer) {
  const Parameters& at = parameters_;
  const size_t width = shape_.width;
  arithmetic_.Linear(rows_, width, 4 * width, layer.norm2, values + at.expand_weight,
                     values + at.expand_bias, layer.expanded);
  arithmetic_.Gelu(rows_ * 4 * width, layer.expanded, layer.activated);
  arithmetic_.Linear(rows_, 4 * width, width, layer.activated, values + at.contract_weight,
                     values + at.contract_bias, branch_);
}

template <typename T>
void Gpt<T>::AddBranch(size_t layer) {
  T* output = layer + 1 < layers_.size() ? layers_[layer + 1].input : output_;
  arithmetic_.Add(rows_ * shape_.width, layers_[layer].middle, branch_, output);
}

template <typename T>
void Gpt<T>::ForwardHead(const T* values) {
  const Parameters& at = parameters_;
  const size_t width = shape_.width;
  arithmetic_.LayerNorm(rows_, width, output_, values + at.final_gain, values + at.final_bias,
                        final_, final_mean_, final_rstd_);
  arithmetic_.Linear(rows_, width, kVocabulary, final_, values + at.head_weight, nullptr,
                     probabilities_);
  arithmetic_.SoftmaxCrossEntropy(rows_, kVocabulary, probabilities_, targets_.data(), losses_);
}

template <typename T>
void Gpt<T>::BackwardHead(const T* values, T* gradients) {
  const Parameters& at = parameters_;
  const size_t width = shape_.width;
  arithmetic_.SoftmaxCrossEntropyBackward(rows_, kVocabulary, probabilities_, targets_.data());
  arithmetic_.LinearBackward(rows_, width, kVocabulary, final_, values + at.head_weight,
                             probabilities_, d_branch_, gradients + at.head_weight, nullptr);
  arithmetic_.Clear(rows_ * width, d_residual_);
  arithmetic_.LayerNormBackward(rows_, width, output_, values + at.final_gain, final_mean_,
                                final_rstd_, d_branch_, d_residual_, gradients + at.final_gain,
                                gradients + at.final_bias);
}

template <typename T>
void Gpt<T>::BackwardMlp(const T* values, const Layer& layer, T* gradients) {
  const Parameters& at = parameters_;
  const size_t width = shape_.width;
  arithmetic_.LinearBackward(rows_, 4 * width, width, layer.activated, values + at.contract_weight,
                             d_residual_, d_wide_, gradients + at.contract_weight,
                             gradients + at.contract_bias);
  arithmetic_.GeluBackward(rows_ * 4 * width, layer.expanded, d_wide_, d_wide2_);
  arithmetic_.LinearBackward(rows_, width, 4 * width, layer.norm2, values + at.expand_weight,
                             d_wide2_, d_branch_, gradients + at.expand_weight,
                             gradients + at.expand_bias);
}

template <typename T>
void Gpt<T>::BackwardAttention(const T* values, const Layer& layer, T* gradients) {
  const Parameters& at = parameters_;
  const size_t width = shape_.width;
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
