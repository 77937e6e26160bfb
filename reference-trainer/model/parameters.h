#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace poolscope::trainer {

inline constexpr size_t kVocabulary = 256;  // bytes

struct GptShape {
  size_t layers = 2;
  size_t width = 64;
  size_t heads = 4;
  size_t context = 64;
  bool untied_head = false;
  size_t experts = 0;  // of each layer's MLP; 0: one MLP for all tokens
  size_t experts_per_token = 1;
  double expert_skew = 0;        // see Experts
  double expert_balance = 0.01;  // weight of the auxiliary loss
};

// One parameter tensor in the flat array of all of them.
struct Tensor {
  std::string name;
  size_t offset = 0;
  size_t size = 0;
  bool matrix = false;  // matrices decay; gains and biases do not
};

// A contiguous part of the parameters that is read as a whole: what parameter fetch moves.
struct ParameterGroup {
  std::string name;  // "embedding", "layer0", "layer0.expert3", "head"
  size_t begin = 0;
  size_t end = 0;
};

// Where each tensor of a model lies. Per layer offsets are of layer 0; add layer × layer_stride.
// With experts, the MLP's offsets are of expert 0; add expert × expert_stride.
class Parameters {
 public:
  explicit Parameters(const GptShape& shape);

  static constexpr size_t kNone = SIZE_MAX;  // the offset of a tensor that this model lacks

  size_t size() const { return size_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  // In the order of their offsets, without gaps.
  const std::vector<ParameterGroup>& groups() const { return groups_; }

  size_t token_embedding = kNone;                             // [256, width]
  size_t position_embedding = kNone;                          // [context, width]
  size_t norm1_gain = kNone, norm1_bias = kNone;              // [width]
  size_t qkv_weight = kNone, qkv_bias = kNone;                // [3 × width, width], [3 × width]
  size_t projection_weight = kNone, projection_bias = kNone;  // [width, width], [width]
  size_t norm2_gain = kNone, norm2_bias = kNone;              // [width]
  size_t router_weight = kNone;                               // [experts, width]
  size_t expand_weight = kNone, expand_bias = kNone;          // [4 × width, width], [4 × width]
  size_t contract_weight = kNone, contract_bias = kNone;      // [width, 4 × width], [width]
  size_t layer_stride = 0;
  size_t expert_stride = 0;
  size_t final_gain = kNone, final_bias = kNone;  // [width]
  size_t head_weight = kNone;                     // [256, width]; the token embedding where tied

 private:
  // Notes the offset in `first` unless that has one already.
  void Add(size_t& first, const std::string& name, size_t size, bool matrix);
  void AddLayer(const GptShape& shape, const std::string& name);
  void AddMlp(size_t width, const std::string& at);
  void EndGroup(const std::string& name);  // what was added since the last one

  size_t size_ = 0;
  std::vector<Tensor> tensors_;
  std::vector<ParameterGroup> groups_;
};

// Values to start from: N(0, 0.08²), the residual branches' outputs scaled by 1 ÷ sqrt(2 × layers)
// (GPT-2), gains 1, biases 0. The same for the same seed everywhere.
template <typename T>
std::vector<T> InitialParameters(const GptShape& shape, uint64_t seed);

}  // namespace poolscope::trainer
