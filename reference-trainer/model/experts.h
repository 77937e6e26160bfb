#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference-trainer/model/parameters.h"

namespace poolscope::trainer {

// A layer's mixture of experts (Shazeer et al. 2017; the router of Fedus, Zoph, Shazeer 2021):
//
//   p(x) = softmax(router × x − skew × ln(1 + e)),   y = Σ over the k largest p_e: p_e × MLP_e(x)
//
// The router learns through p and through an auxiliary loss that keeps the experts evenly loaded:
// balance × experts × Σ_e f_e × mean p_e, f_e being the share of choices that fell on e. The skew
// is a constant that forces imbalance. Holds the activations of one micro-batch; `values` and
// `gradients` are shifted so that layer 0's offsets are this layer's. T is float or double.
template <typename T>
class Experts {
 public:
  Experts(const GptShape& shape, const Parameters& parameters, size_t rows);

  // Chooses the experts of x[rows, width], which must live until Backward.
  void Route(const T* values, const T* x);
  // Writes y[rows, width].
  void Forward(const T* values, const T* x, T* y);
  // Given dy[rows, width]: writes dx[rows, width] without the router's part, which RouteBackward
  // adds; both add to `gradients`.
  void Backward(const T* values, const T* dy, T* dx, T* gradients);
  void RouteBackward(const T* values, const T* x, T* dx, T* gradients);

  // Tokens that the last Route sent to each expert; they add up to rows × experts per token.
  std::span<const uint64_t> load() const { return load_; }
  // The auxiliary loss of the last Route.
  double balance_loss() const;

 private:
  // An entry is a (row, expert) that was chosen; entries lie sorted by expert, then row.
  struct Slice {
    size_t begin, count;
  };
  Slice SliceOf(size_t expert) const { return {first_[expert], load_[expert]}; }

  const GptShape shape_;
  const Parameters& at_;
  const size_t rows_;
  std::vector<T> probabilities_;              // [rows, experts]
  std::vector<T> d_probabilities_;            // [rows, experts]
  std::vector<uint64_t> load_;                // [experts]
  std::vector<size_t> first_;                 // [experts], their first entries
  std::vector<size_t> row_;                   // [entries]
  std::vector<T> inputs_, outputs_;           // [entries, width]
  std::vector<T> expanded_, activated_;       // [entries, 4 × width]
  std::vector<T> d_outputs_, d_inputs_;       // [entries, width]
  std::vector<T> d_wide_, d_wide2_;           // [entries, 4 × width]
  std::vector<T> d_router_;                   // [rows, width]
  std::vector<std::vector<size_t>> rows_of_;  // [experts], rows in order; scratch of Route
};

// How many of `tokens` tokens each expert gets from a router that knows nothing: the k largest of
// Gumbel noise − skew × ln(1 + e) (for emulated devices that compute nothing).
std::vector<uint64_t> DrawExpertLoad(const GptShape& shape, uint64_t tokens, uint64_t seed);

}  // namespace poolscope::trainer
