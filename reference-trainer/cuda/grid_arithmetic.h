#pragma once

#include <memory>
#include <numeric>
#include <vector>

#include "reference-trainer/cuda/attention.h"
#include "reference-trainer/cuda/elementwise.h"
#include "reference-trainer/cuda/gemm.h"
#include "reference-trainer/cuda/rows.h"
#include "reference-trainer/model/arithmetic.h"
#include "reference-trainer/profiles.h"

namespace poolscope::trainer::cuda {

// Arithmetic by kernels that `Executor` runs in order: DeviceStream on a GPU, HostGrid of the tests
// on the host. This is the launcher of every kernel.
//
//   struct Executor {
//     void Run(const Kernel&);                             // any kernel as in block.h
//     void* Allocate(size_t bytes);                        // zeros, for its life
//     void Clear(size_t bytes, void*);                     // in order
//     void Copy(size_t bytes, const void* from, void* to); // in order, then waits for all
//     // For GridReplica and GridShard, see DeviceStream:
//     void* AllocateHost(size_t bytes);
//     void CopyAsync(size_t bytes, const void* from, void* to);
//     void Wait();
//     void Repeat(std::pair<std::string, size_t> name, const std::function<void()>& work);
//   };
template <typename T, class Executor>
class GridArithmetic : public Arithmetic<T> {
 public:
  // `executor` outlives this. `precision`: of the inputs of products of matrices; sums are in T.
  GridArithmetic(Executor& executor, Precision precision)
      : executor_(executor),
        precision_(precision),
        partial_(
            static_cast<double*>(executor.Allocate(PartialSums<T>::kMaxBlocks * sizeof(double)))) {}

  void* AllocateBytes(size_t bytes) override { return executor_.Allocate(bytes); }
  void Copy(size_t bytes, const void* from, void* to) override { executor_.Copy(bytes, from, to); }
  void Clear(size_t count, T* values) override { executor_.Clear(count * sizeof(T), values); }
  double Sum(size_t count, const T* values) override { return Total(count, values, false); }
  double SumOfSquares(size_t count, const T* values) { return Total(count, values, true); }

  void Add(size_t count, const T* a, const T* b, T* sum) override {
    RunEach(count, AddEach<T>{a, b, sum});
  }
  void Embed(size_t rows, size_t context, size_t width, const uint8_t* tokens, const T* token_table,
             const T* position_table, T* y) override {
    RunEach(rows * width, EmbedEach<T>{context, width, tokens, token_table, position_table, y});
  }
  void EmbedBackward(size_t rows, size_t context, size_t width, const uint8_t* tokens, const T* dy,
                     T* dtoken_table, T* dposition_table) override {
    constexpr size_t kTokens = 256;
    RunEach(kTokens * width, EmbedTokenBackwardEach<T>{rows, width, tokens, dy, dtoken_table});
    RunEach(context * width,
            EmbedPositionBackwardEach<T>{rows, context, width, dy, dposition_table});
  }
  void Linear(size_t rows, size_t in, size_t out, const T* x, const T* w, const T* bias,
              T* y) override {
    if (bias) RunEach(rows * out, RepeatEach<T>{out, bias, y});
    Gemm(Transposed::kNo, Transposed::kYes, rows, out, in, x, in, w, in, bias ? 1 : 0, y, out);
  }
  void LinearBackward(size_t rows, size_t in, size_t out, const T* x, const T* w, const T* dy,
                      T* dx, T* dw, T* dbias) override {
    Gemm(Transposed::kNo, Transposed::kNo, rows, in, out, dy, out, w, in, 0, dx, in);
    Gemm(Transposed::kYes, Transposed::kNo, out, in, rows, dy, out, x, in, 1, dw, in);
    if (dbias) SumColumns(rows, out, Element<T>{out, dy}, dbias);
  }
  void LayerNorm(size_t rows, size_t width, const T* x, const T* gain, const T* bias, T* y, T* mean,
                 T* rstd) override {
    executor_.Run(
        LayerNormRows<T>{rows, width, static_cast<T>(kNormEpsilon), x, gain, bias, y, mean, rstd});
  }
  void LayerNormBackward(size_t rows, size_t width, const T* x, const T* gain, const T* mean,
                         const T* rstd, const T* dy, T* dx, T* dgain, T* dbias) override {
    executor_.Run(LayerNormBackwardRows<T>{rows, width, x, gain, mean, rstd, dy, dx});
    SumColumns(rows, width, NormSlope<T>{width, x, mean, rstd, dy}, dgain);
    SumColumns(rows, width, Element<T>{width, dy}, dbias);
  }
  void Gelu(size_t count, const T* x, T* y) override {
    RunEach(count, GeluEach<T>{static_cast<T>(kGeluScale), static_cast<T>(kGeluCubic), x, y});
  }
  void GeluBackward(size_t count, const T* x, const T* dy, T* dx) override {
    RunEach(count,
            GeluBackwardEach<T>{static_cast<T>(kGeluScale), static_cast<T>(kGeluCubic), x, dy, dx});
  }
  void Attention(size_t batch, size_t time, size_t width, size_t heads, const T* qkv, T* weights,
                 T* y) override {
    executor_.Run(AttentionForward<T>{{batch, time, width, heads}, qkv, weights, y});
  }
  void AttentionBackward(size_t batch, size_t time, size_t width, size_t heads, const T* qkv,
                         const T* weights, const T* dy, T* dqkv, T* scratch) override {
    const AttentionShape<T> shape{batch, time, width, heads};
    executor_.Run(AttentionBackwardQuery<T>{shape, qkv, weights, dy, dqkv, scratch});
    executor_.Run(AttentionBackwardKey<T>{shape, qkv, weights, dy, scratch, dqkv});
  }
  void SoftmaxCrossEntropy(size_t rows, size_t classes, T* logits, const uint8_t* targets,
                           T* losses) override {
    executor_.Run(SoftmaxCrossEntropyRows<T>{rows, classes, targets, logits, losses});
  }
  void SoftmaxCrossEntropyBackward(size_t rows, size_t classes, T* probabilities,
                                   const uint8_t* targets) override {
    RunEach(rows * classes,
            SoftmaxCrossEntropyBackwardEach<T>{rows, classes, targets, probabilities});
  }

  // Calls operation(i) for i < count.
  template <class Operation>
  void RunEach(size_t count, const Operation& operation) {
    executor_.Run(Each<Operation>{count, operation});
  }

 protected:
  // c = op(a) op(b) + beta × c; as Gemm of kernels.h.
  virtual void Gemm(Transposed transpose_a, Transposed transpose_b, size_t m, size_t n, size_t k,
                    const T* a, size_t lda, const T* b, size_t ldb, T beta, T* c, size_t ldc) {
    executor_.Run(TiledGemm<T>{transpose_a == Transposed::kYes, transpose_b == Transposed::kYes,
                               precision_ == Precision::kBf16, m, n, k, a, lda, b, ldb, beta, c,
                               ldc});
  }

  Executor& executor_;
  const Precision precision_;

 private:
  template <class Value>
  void SumColumns(size_t rows, size_t width, const Value& value, T* out) {
    executor_.Run(ColumnSums<T, Value>{rows, width, value, out});
  }

  double Total(size_t count, const T* values, bool squared) {
    const PartialSums<T> sums{count, squared, values, partial_};
    executor_.Run(sums);
    std::vector<double> partial(sums.grid().blocks);
    executor_.Copy(partial.size() * sizeof(double), partial_, partial.data());
    return std::accumulate(partial.begin(), partial.end(), 0.0);
  }

  double* const partial_;
};

}  // namespace poolscope::trainer::cuda
