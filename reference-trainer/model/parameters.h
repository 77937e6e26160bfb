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
};

// One parameter tensor in the flat array of all of them.
struct Tensor {
  std::string name;
  size_t offset = 0;
  size_t size = 0;
  bool matrix = false;  // matrices decay; gains and biases do not
};

// Where each tensor of a model lies. Per layer offsets are of layer 0; add layer × layer_stride.
class Parameters {
 public:
  explicit Parameters(const GptShape& shape);

  size_t size() const { return size_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }

  size_t token_embedding;                     // [256, width]
  size_t position_embedding;                  // [context, width]
  size_t norm1_gain, norm1_bias;              // [width]
  size_t qkv_weight, qkv_bias;                // [3 × width, width], [3 × width]
  size_t projection_weight, projection_bias;  // [width, width], [width]
  size_t norm2_gain, norm2_bias;              // [width]
  size_t expand_weight, expand_bias;          // [4 × width, width], [4 × width]
  size_t contract_weight, contract_bias;      // [width, 4 × width], [width]
  size_t layer_stride = 0;
  size_t final_gain, final_bias;  // [width]
  size_t head_weight;             // [256, width]; the token embedding where tied

 private:
  size_t Add(const std::string& name, size_t size, bool matrix);

  size_t size_ = 0;
  std::vector<Tensor> tensors_;
};

// Values to start from: N(0, 0.08²), the residual branches' outputs scaled by 1 ÷ sqrt(2 × layers)
// (GPT-2), gains 1, biases 0. The same for the same seed everywhere.
template <typename T>
std::vector<T> InitialParameters(const GptShape& shape, uint64_t seed);

}  // namespace poolscope::trainer
