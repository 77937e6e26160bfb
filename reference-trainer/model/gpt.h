#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference-trainer/model/arithmetic.h"
#include "reference-trainer/model/experts.h"
#include "reference-trainer/model/stages.h"

namespace poolscope::trainer {

// A byte-level GPT: embeddings, `layers` pre-norm blocks of causal attention and MLP or experts,
// final norm, head. Holds the activations of one micro-batch; parameters and gradients belong to
// the caller. All arrays, the caller's too, are in the memory of `arithmetic`, which outlives the
// model; with experts that is the host's. Used by one thread at a time. T is float or double.
template <typename T>
class Gpt {
 public:
  Gpt(const GptShape& shape, size_t batch, Arithmetic<T>& arithmetic);

  const Parameters& parameters() const { return parameters_; }

  // The pass over tokens[b, context] and targets[b, context], b ≤ batch, which must live until
  // Backward; Loss is its mean cross-entropy in nats.
  void Forward(std::span<const T> values, std::span<const uint8_t> tokens,
               std::span<const uint8_t> targets);
  double Loss();
  // The auxiliary loss of the experts' routers, which Backward minimises beside Loss; 0 without.
  double BalanceLoss() const;

  // Adds the gradient of the last Forward's loss to `gradients`, which is as long as `values`.
  // Once per Forward, with the same `values`.
  void Backward(std::span<const T> values, std::span<T> gradients);

  // The same stage by stage, for weights that come and go: a stage reads the weights of its own
  // groups alone. Begin, then all stages forward, then all backward in reverse.
  const std::vector<Stage>& stages() const { return stages_; }
  void Begin(std::span<const uint8_t> tokens, std::span<const uint8_t> targets);
  void ForwardStage(size_t stage, std::span<const T> values);
  void BackwardStage(size_t stage, std::span<const T> values, std::span<T> gradients);
  // Tokens that each expert of `layer` got, known after its Stage::kLayer; empty without experts.
  std::span<const uint64_t> ExpertLoad(size_t layer) const;

 private:
  // rows = batch × context.
  struct Layer {
    T* input;                          // [rows, width]
    T *norm1, *norm2;                  // [rows, width]
    T *mean1, *rstd1, *mean2, *rstd2;  // [rows]
    T* qkv;                            // [rows, 3 × width]
    T* weights;                        // [batch, heads, context, context]
    T* attended;                       // [rows, width]
    T* middle;                         // [rows, width], after attention's residual
    T *expanded, *activated;           // [rows, 4 × width]; without experts
  };

  // Of a layer's functions `values` and `gradients` are shifted so that layer 0's offsets are its.
  void ForwardAttention(const T* values, Layer& layer);  // up to norm2
  void ForwardMlp(const T* values, Layer& layer);        // into branch_
  void AddBranch(size_t layer);                          // output = middle + branch_
  void ForwardHead(const T* values);
  // From d_residual_, the gradient of the layer's output, d_branch_, that of norm2.
  void BackwardMlp(const T* values, const Layer& layer, T* gradients);
  // From both d_residual_, that of the layer's input.
  void BackwardAttention(const T* values, const Layer& layer, T* gradients);
  void BackwardHead(const T* values, T* gradients);

  Arithmetic<T>& arithmetic_;
  const GptShape shape_;
  size_t batch_;  // of the pass; at first the most that there is room for
  size_t rows_;
  const Parameters parameters_;
  const std::vector<Stage> stages_;
  std::vector<Layer> layers_;
  std::vector<Experts<T>> experts_;            // by layer, or empty
  T* output_;                                  // [rows, width], of the last layer
  T *final_, *final_mean_, *final_rstd_;       // [rows, width], [rows], [rows]
  T* probabilities_;                           // [rows, 256]
  T* losses_;                                  // [rows]
  T* branch_;                                  // [rows, width], forward scratch
  T *d_residual_, *d_branch_;                  // [rows, width]
  T *d_wide_, *d_wide2_;                       // [rows, 4 × width]
  T* d_scores_;                                // [batch, heads, context, context]
  std::span<const uint8_t> tokens_, targets_;  // of the last Begin
};

}  // namespace poolscope::trainer
