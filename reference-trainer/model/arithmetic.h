#pragma once

#include <cstddef>
#include <cstdint>

#include "reference-trainer/model/kernels.h"

namespace poolscope::trainer {

// Where a model's arrays live and what computes on them; the functions are those of kernels.h,
// whose shapes and contracts hold here too. An implementation may run them later than they are
// called, in their order; Copy and Sum wait for all before them. Used by one thread at a time. T is
// float or double.
template <typename T>
class Arithmetic {
 public:
  virtual ~Arithmetic() = default;

  // Zeros in the memory that the functions below work on; they live as long as this.
  virtual void* AllocateBytes(size_t bytes) = 0;
  T* Allocate(size_t count) { return static_cast<T*>(AllocateBytes(count * sizeof(T))); }
  // From or to the host's memory, or within this one's. Done when it returns, as all before it.
  virtual void Copy(size_t bytes, const void* from, void* to) = 0;
  virtual void Clear(size_t count, T* values) = 0;
  virtual double Sum(size_t count, const T* values) = 0;

  virtual void Add(size_t count, const T* a, const T* b, T* sum) = 0;
  virtual void Embed(size_t rows, size_t context, size_t width, const uint8_t* tokens,
                     const T* token_table, const T* position_table, T* y) = 0;
  virtual void EmbedBackward(size_t rows, size_t context, size_t width, const uint8_t* tokens,
                             const T* dy, T* dtoken_table, T* dposition_table) = 0;
  virtual void Linear(size_t rows, size_t in, size_t out, const T* x, const T* w, const T* bias,
                      T* y) = 0;
  virtual void LinearBackward(size_t rows, size_t in, size_t out, const T* x, const T* w,
                              const T* dy, T* dx, T* dw, T* dbias) = 0;
  virtual void LayerNorm(size_t rows, size_t width, const T* x, const T* gain, const T* bias, T* y,
                         T* mean, T* rstd) = 0;
  virtual void LayerNormBackward(size_t rows, size_t width, const T* x, const T* gain,
                                 const T* mean, const T* rstd, const T* dy, T* dx, T* dgain,
                                 T* dbias) = 0;
  virtual void Gelu(size_t count, const T* x, T* y) = 0;
  virtual void GeluBackward(size_t count, const T* x, const T* dy, T* dx) = 0;
  virtual void Attention(size_t batch, size_t time, size_t width, size_t heads, const T* qkv,
                         T* weights, T* y) = 0;
  virtual void AttentionBackward(size_t batch, size_t time, size_t width, size_t heads,
                                 const T* qkv, const T* weights, const T* dy, T* dqkv,
                                 T* scratch) = 0;
  virtual void SoftmaxCrossEntropy(size_t rows, size_t classes, T* logits, const uint8_t* targets,
                                   T* losses) = 0;
  virtual void SoftmaxCrossEntropyBackward(size_t rows, size_t classes, T* probabilities,
                                           const uint8_t* targets) = 0;
};

}  // namespace poolscope::trainer
