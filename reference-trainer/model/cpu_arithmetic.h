#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "reference-trainer/model/arithmetic.h"

namespace poolscope::trainer {

// The functions of kernels.h, at once, on the caller's thread.
template <typename T>
class CpuArithmetic final : public Arithmetic<T> {
 public:
  void* AllocateBytes(size_t bytes) override {
    return arrays_.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
  }
  void Copy(size_t bytes, const void* from, void* to) override { std::memcpy(to, from, bytes); }
  void Clear(size_t count, T* values) override { std::fill(values, values + count, T{0}); }
  double Sum(size_t count, const T* values) override {
    return std::accumulate(values, values + count, 0.0);
  }

  void Add(size_t count, const T* a, const T* b, T* sum) override {
    trainer::Add(count, a, b, sum);
  }
  void Embed(size_t rows, size_t context, size_t width, const uint8_t* tokens, const T* token_table,
             const T* position_table, T* y) override {
    trainer::Embed(rows, context, width, tokens, token_table, position_table, y);
  }
  void EmbedBackward(size_t rows, size_t context, size_t width, const uint8_t* tokens, const T* dy,
                     T* dtoken_table, T* dposition_table) override {
    trainer::EmbedBackward(rows, context, width, tokens, dy, dtoken_table, dposition_table);
  }
  void Linear(size_t rows, size_t in, size_t out, const T* x, const T* w, const T* bias,
              T* y) override {
    trainer::Linear(rows, in, out, x, w, bias, y);
  }
  void LinearBackward(size_t rows, size_t in, size_t out, const T* x, const T* w, const T* dy,
                      T* dx, T* dw, T* dbias) override {
    trainer::LinearBackward(rows, in, out, x, w, dy, dx, dw, dbias);
  }
  void LayerNorm(size_t rows, size_t width, const T* x, const T* gain, const T* bias, T* y, T* mean,
                 T* rstd) override {
    trainer::LayerNorm(rows, width, x, gain, bias, y, mean, rstd);
  }
  void LayerNormBackward(size_t rows, size_t width, const T* x, const T* gain, const T* mean,
                         const T* rstd, const T* dy, T* dx, T* dgain, T* dbias) override {
    trainer::LayerNormBackward(rows, width, x, gain, mean, rstd, dy, dx, dgain, dbias);
  }
  void Gelu(size_t count, const T* x, T* y) override { trainer::Gelu(count, x, y); }
  void GeluBackward(size_t count, const T* x, const T* dy, T* dx) override {
    trainer::GeluBackward(count, x, dy, dx);
  }
  void Attention(size_t batch, size_t time, size_t width, size_t heads, const T* qkv, T* weights,
                 T* y) override {
    trainer::Attention(batch, time, width, heads, qkv, weights, y);
  }
  void AttentionBackward(size_t batch, size_t time, size_t width, size_t heads, const T* qkv,
                         const T* weights, const T* dy, T* dqkv, T* scratch) override {
    trainer::AttentionBackward(batch, time, width, heads, qkv, weights, dy, dqkv, scratch);
  }
  void SoftmaxCrossEntropy(size_t rows, size_t classes, T* logits, const uint8_t* targets,
                           T* losses) override {
    trainer::SoftmaxCrossEntropy(rows, classes, logits, targets, losses);
  }
  void SoftmaxCrossEntropyBackward(size_t rows, size_t classes, T* probabilities,
                                   const uint8_t* targets) override {
    trainer::SoftmaxCrossEntropyBackward(rows, classes, probabilities, targets);
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> arrays_;
};

}  // namespace poolscope::trainer
