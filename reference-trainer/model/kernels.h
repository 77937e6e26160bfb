#pragma once

#include <cstddef>
#include <cstdint>

// The model's arithmetic, each forward beside its backward. T is float, or double for the tests of
// the gradients. All arrays are dense and row-major unless a leading dimension is given; backward
// functions add to the gradients of parameters and write those of activations.
namespace poolscope::trainer {

inline constexpr double kNormEpsilon = 1e-5;              // added to the variance
inline constexpr double kGeluScale = 0.7978845608028654;  // sqrt(2 ÷ π)
inline constexpr double kGeluCubic = 0.044715;

enum class Transposed { kNo, kYes };

// c[m, n] = alpha × op(a)[m, k] op(b)[k, n] + beta × c; lda, ldb, ldc are distances between rows.
template <typename T>
void Gemm(Transposed transpose_a, Transposed transpose_b, size_t m, size_t n, size_t k, T alpha,
          const T* a, size_t lda, const T* b, size_t ldb, T beta, T* c, size_t ldc);

// sum = a + b.
template <typename T>
void Add(size_t count, const T* a, const T* b, T* sum);

// y[rows, width] = token_table[token of the row] + position_table[row mod context].
template <typename T>
void Embed(size_t rows, size_t context, size_t width, const uint8_t* tokens /* [rows] */,
           const T* token_table /* [256, width] */, const T* position_table /* [context, width] */,
           T* y);
template <typename T>
void EmbedBackward(size_t rows, size_t context, size_t width, const uint8_t* tokens, const T* dy,
                   T* dtoken_table, T* dposition_table);

// y[rows, out] = x[rows, in] w[out, in]ᵀ + bias[out] (bias may be null).
template <typename T>
void Linear(size_t rows, size_t in, size_t out, const T* x, const T* w, const T* bias, T* y);
template <typename T>
void LinearBackward(size_t rows, size_t in, size_t out, const T* x, const T* w, const T* dy,
                    T* dx /* [rows, in] */, T* dw /* [out, in] */, T* dbias /* [out] or null */);

// y = (x − mean) × rstd × gain + bias over each row; mean and rstd are kept for backward.
template <typename T>
void LayerNorm(size_t rows, size_t width, const T* x, const T* gain, const T* bias, T* y,
               T* mean /* [rows] */, T* rstd /* [rows] */);
// Adds to dx, which already holds the gradient that goes around the norm.
template <typename T>
void LayerNormBackward(size_t rows, size_t width, const T* x, const T* gain, const T* mean,
                       const T* rstd, const T* dy, T* dx, T* dgain, T* dbias);

// GELU, tanh form (Hendrycks, Gimpel 2016).
template <typename T>
void Gelu(size_t count, const T* x, T* y);
template <typename T>
void GeluBackward(size_t count, const T* x, const T* dy, T* dx);

// Causal attention of `batch` sequences of `time` positions; head width = width ÷ heads.
// qkv[batch, time, 3 × width]; y[batch, time, width]; weights[batch, heads, time, time].
template <typename T>
void Attention(size_t batch, size_t time, size_t width, size_t heads, const T* qkv, T* weights,
               T* y);
// scratch[batch, heads, time, time], of which only one may be in use at a time.
template <typename T>
void AttentionBackward(size_t batch, size_t time, size_t width, size_t heads, const T* qkv,
                       const T* weights, const T* dy, T* dqkv, T* scratch);

// Turns logits[rows, classes] into probabilities, in place; losses[rows] = −log p(target).
template <typename T>
void SoftmaxCrossEntropy(size_t rows, size_t classes, T* logits, const uint8_t* targets, T* losses);
// Turns them into the gradient of the mean loss with respect to the logits, in place.
template <typename T>
void SoftmaxCrossEntropyBackward(size_t rows, size_t classes, T* probabilities,
                                 const uint8_t* targets);

// sum[i] += values[i], rounded to the nearest multiple of 2⁻²⁸ (ties to even).
void AddOnGrid(size_t count, const float* values, float* sum);

}  // namespace poolscope::trainer
