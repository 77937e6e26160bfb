#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference-trainer/model/parameters.h"

namespace poolscope::trainer {

// A byte-level GPT: embeddings, `layers` pre-norm blocks of causal attention and MLP, final norm,
// head. Holds the activations of one micro-batch; parameters and gradients belong to the caller.
// Used by one thread at a time. T is float or double.
template <typename T>
class Gpt {
 public:
  Gpt(const GptShape& shape, size_t batch);

  const Parameters& parameters() const { return parameters_; }

  // Mean cross-entropy in nats over tokens[batch, context] and targets[batch, context], both of
  // which must live until Backward.
  double Forward(std::span<const T> values, std::span<const uint8_t> tokens,
                 std::span<const uint8_t> targets);

  // Adds the gradient of the last Forward's loss to `gradients`, which is as long as `values`.
  // Once per Forward, with the same `values`.
  void Backward(std::span<const T> values, std::span<T> gradients);

 private:
  // rows = batch × context.
  struct Layer {
    std::vector<T> input;                       // [rows, width]
    std::vector<T> norm1, norm2;                // [rows, width]
    std::vector<T> mean1, rstd1, mean2, rstd2;  // [rows]
    std::vector<T> qkv;                         // [rows, 3 × width]
    std::vector<T> weights;                     // [batch, heads, context, context]
    std::vector<T> attended;                    // [rows, width]
    std::vector<T> middle;                      // [rows, width], after attention's residual
    std::vector<T> expanded, activated;         // [rows, 4 × width]
  };

  void ForwardLayer(const T* values, Layer& layer, std::vector<T>& output);
  void BackwardLayer(const T* values, const Layer& layer, T* gradients);

  const GptShape shape_;
  const size_t batch_;
  const size_t rows_;
  const Parameters parameters_;
  std::vector<Layer> layers_;
  std::vector<T> output_;                           // [rows, width], of the last layer
  std::vector<T> final_, final_mean_, final_rstd_;  // [rows, width], [rows], [rows]
  std::vector<T> probabilities_;                    // [rows, 256]
  std::vector<T> branch_;                           // [rows, width], forward scratch
  std::vector<T> d_residual_, d_branch_;            // [rows, width]
  std::vector<T> d_wide_, d_wide2_;                 // [rows, 4 × width]
  std::vector<T> d_scores_;                         // [context, context]
  std::span<const uint8_t> tokens_, targets_;       // of the last Forward
};

}  // namespace poolscope::trainer
