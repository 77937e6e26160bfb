#include "reference-trainer/model/kernels.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace poolscope::trainer {

template <typename T>
void Gemm(Transposed transpose_a, Transposed transpose_b, size_t m, size_t n, size_t k, T alpha,
          const T* a, size_t lda, const T* b, size_t ldb, T beta, T* c, size_t ldc) {
  const auto flag = [](Transposed each) {
    return each == Transposed::kYes ? CblasTrans : CblasNoTrans;
  };
  const auto size = [](size_t each) { return static_cast<blasint>(each); };
  if constexpr (std::is_same_v<T, float>) {
    cblas_sgemm(CblasRowMajor, flag(transpose_a), flag(transpose_b), size(m), size(n), size(k),
                alpha, a, size(lda), b, size(ldb), beta, c, size(ldc));
  } else {
    cblas_dgemm(CblasRowMajor, flag(transpose_a), flag(transpose_b), size(m), size(n), size(k),
                alpha, a, size(lda), b, size(ldb), beta, c, size(ldc));
  }
}

template <typename T>
void Add(size_t count, const T* a, const T* b, T* sum) {
  for (size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

template <typename T>
void Embed(size_t rows, size_t context, size_t width, const uint8_t* tokens, const T* token_table,
           const T* position_table, T* y) {
  for (size_t row = 0; row < rows; ++row) {
    Add(width, token_table + tokens[row] * width, position_table + (row % context) * width,
        y + row * width);
  }
}

template <typename T>
void EmbedBackward(size_t rows, size_t context, size_t width, const uint8_t* tokens, const T* dy,
                   T* dtoken_table, T* dposition_table) {
  for (size_t row = 0; row < rows; ++row) {
    T* token = dtoken_table + tokens[row] * width;
    T* position = dposition_table + (row % context) * width;
    for (size_t i = 0; i < width; ++i) {
      token[i] += dy[row * width + i];
      position[i] += dy[row * width + i];
    }
  }
}

template <typename T>
void Linear(size_t rows, size_t in, size_t out, const T* x, const T* w, const T* bias, T* y) {
  if (bias) {
    for (size_t row = 0; row < rows; ++row) std::copy(bias, bias + out, y + row * out);
  }
  Gemm<T>(Transposed::kNo, Transposed::kYes, rows, out, in, 1, x, in, w, in, bias ? 1 : 0, y, out);
}

template <typename T>
void LinearBackward(size_t rows, size_t in, size_t out, const T* x, const T* w, const T* dy, T* dx,
                    T* dw, T* dbias) {
  Gemm<T>(Transposed::kNo, Transposed::kNo, rows, in, out, 1, dy, out, w, in, 0, dx, in);
  Gemm<T>(Transposed::kYes, Transposed::kNo, out, in, rows, 1, dy, out, x, in, 1, dw, in);
  if (!dbias) return;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < out; ++i) dbias[i] += dy[row * out + i];
  }
}

template <typename T>
void LayerNorm(size_t rows, size_t width, const T* x, const T* gain, const T* bias, T* y, T* mean,
               T* rstd) {
  for (size_t row = 0; row < rows; ++row) {
    const T* from = x + row * width;
    T sum = 0;
    for (size_t i = 0; i < width; ++i) sum += from[i];
    const T center = sum / static_cast<T>(width);
    T squares = 0;
    for (size_t i = 0; i < width; ++i) squares += (from[i] - center) * (from[i] - center);
    const T scale = 1 / std::sqrt(squares / static_cast<T>(width) + static_cast<T>(kNormEpsilon));
    for (size_t i = 0; i < width; ++i) {
      y[row * width + i] = (from[i] - center) * scale * gain[i] + bias[i];
    }
    mean[row] = center;
    rstd[row] = scale;
  }
}

template <typename T>
void LayerNormBackward(size_t rows, size_t width, const T* x, const T* gain, const T* mean,
                       const T* rstd, const T* dy, T* dx, T* dgain, T* dbias) {
  for (size_t row = 0; row < rows; ++row) {
    const T* from = x + row * width;
    const T* slope = dy + row * width;
    T mean_slope = 0;       // of dy × gain
    T mean_slope_norm = 0;  // of dy × gain × normalized
    for (size_t i = 0; i < width; ++i) {
      const T norm = (from[i] - mean[row]) * rstd[row];
      mean_slope += slope[i] * gain[i];
      mean_slope_norm += slope[i] * gain[i] * norm;
      dgain[i] += slope[i] * norm;
      dbias[i] += slope[i];
    }
    mean_slope /= static_cast<T>(width);
    mean_slope_norm /= static_cast<T>(width);
    for (size_t i = 0; i < width; ++i) {
      const T norm = (from[i] - mean[row]) * rstd[row];
      dx[row * width + i] += (slope[i] * gain[i] - mean_slope - norm * mean_slope_norm) * rstd[row];
    }
  }
}

template <typename T>
void Gelu(size_t count, const T* x, T* y) {
  const T scale = static_cast<T>(kGeluScale), cubic = static_cast<T>(kGeluCubic);
  for (size_t i = 0; i < count; ++i) {
    y[i] = T{0.5} * x[i] * (1 + std::tanh(scale * (x[i] + cubic * x[i] * x[i] * x[i])));
  }
}

template <typename T>
void GeluBackward(size_t count, const T* x, const T* dy, T* dx) {
  const T scale = static_cast<T>(kGeluScale), cubic = static_cast<T>(kGeluCubic);
  for (size_t i = 0; i < count; ++i) {
    const T tanh = std::tanh(scale * (x[i] + cubic * x[i] * x[i] * x[i]));
    const T inner = scale * (1 + 3 * cubic * x[i] * x[i]);
    dx[i] = dy[i] * T{0.5} * (1 + tanh + x[i] * (1 - tanh * tanh) * inner);
  }
}

template <typename T>
void Attention(size_t batch, size_t time, size_t width, size_t heads, const T* qkv, T* weights,
               T* y) {
  const size_t head_width = width / heads, row = 3 * width;
  const T scale = 1 / std::sqrt(static_cast<T>(head_width));
  for (size_t b = 0; b < batch; ++b) {
    for (size_t h = 0; h < heads; ++h) {
      const T* q = qkv + b * time * row + h * head_width;  // [time, head_width], rows of `row`
      const T* k = q + width;
      const T* v = k + width;
      T* w = weights + (b * heads + h) * time * time;  // [time, time]
      Gemm<T>(Transposed::kNo, Transposed::kYes, time, time, head_width, scale, q, row, k, row, 0,
              w, time);
      for (size_t t = 0; t < time; ++t) {
        T* scores = w + t * time;
        const T top = *std::max_element(scores, scores + t + 1);
        T sum = 0;
        for (size_t s = 0; s <= t; ++s) sum += scores[s] = std::exp(scores[s] - top);
        for (size_t s = 0; s <= t; ++s) scores[s] /= sum;
        std::fill(scores + t + 1, scores + time, T{0});
      }
      Gemm<T>(Transposed::kNo, Transposed::kNo, time, head_width, time, 1, w, time, v, row, 0,
              y + b * time * width + h * head_width, width);
    }
  }
}

template <typename T>
void AttentionBackward(size_t batch, size_t time, size_t width, size_t heads, const T* qkv,
                       const T* weights, const T* dy, T* dqkv, T* scratch) {
  const size_t head_width = width / heads, row = 3 * width;
  const T scale = 1 / std::sqrt(static_cast<T>(head_width));
  for (size_t b = 0; b < batch; ++b) {
    for (size_t h = 0; h < heads; ++h) {
      const size_t offset = b * time * row + h * head_width;
      const T *q = qkv + offset, *k = q + width, *v = k + width;
      T *dq = dqkv + offset, *dk = dq + width, *dv = dk + width;
      const T* w = weights + (b * heads + h) * time * time;
      const T* slope = dy + b * time * width + h * head_width;  // [time, head_width]
      Gemm<T>(Transposed::kYes, Transposed::kNo, time, head_width, time, 1, w, time, slope, width,
              0, dv, row);
      Gemm<T>(Transposed::kNo, Transposed::kYes, time, time, head_width, 1, slope, width, v, row, 0,
              scratch, time);
      for (size_t t = 0; t < time; ++t) {  // through the softmax, row by row
        const T* p = w + t * time;
        T* d = scratch + t * time;
        T mean = 0;
        for (size_t s = 0; s <= t; ++s) mean += p[s] * d[s];
        for (size_t s = 0; s <= t; ++s) d[s] = p[s] * (d[s] - mean);
        std::fill(d + t + 1, d + time, T{0});
      }
      Gemm<T>(Transposed::kNo, Transposed::kNo, time, head_width, time, scale, scratch, time, k,
              row, 0, dq, row);
      Gemm<T>(Transposed::kYes, Transposed::kNo, time, head_width, time, scale, scratch, time, q,
              row, 0, dk, row);
    }
  }
}

template <typename T>
void SoftmaxCrossEntropy(size_t rows, size_t classes, T* logits, const uint8_t* targets,
                         T* losses) {
  for (size_t row = 0; row < rows; ++row) {
    T* each = logits + row * classes;
    const T top = *std::max_element(each, each + classes);
    const T target = each[targets[row]] - top;
    T sum = 0;
    for (size_t i = 0; i < classes; ++i) sum += each[i] = std::exp(each[i] - top);
    for (size_t i = 0; i < classes; ++i) each[i] /= sum;
    losses[row] = std::log(sum) - target;
  }
}

template <typename T>
void SoftmaxCrossEntropyBackward(size_t rows, size_t classes, T* probabilities,
                                 const uint8_t* targets) {
  const T share = 1 / static_cast<T>(rows);
  for (size_t row = 0; row < rows; ++row) {
    T* each = probabilities + row * classes;
    each[targets[row]] -= 1;
    for (size_t i = 0; i < classes; ++i) each[i] *= share;
  }
}

void AddOnGrid(size_t count, const float* values, float* sum) {
  // Adding 1.5 × 2⁵² × 2⁻²⁸ leaves a double no bits below 2⁻²⁸.
  constexpr double kShift = 0x1.8p24;
  for (size_t i = 0; i < count; ++i) {
    sum[i] += static_cast<float>((static_cast<double>(values[i]) + kShift) - kShift);
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type.
#define POOLSCOPE_TRAINER_KERNELS(T)                                                               \
  template void Gemm<T>(Transposed, Transposed, size_t, size_t, size_t, T, const T*, size_t,       \
                        const T*, size_t, T, T*, size_t);                                          \
  template void Add<T>(size_t, const T*, const T*, T*);                                            \
  template void Embed<T>(size_t, size_t, size_t, const uint8_t*, const T*, const T*, T*);          \
  template void EmbedBackward<T>(size_t, size_t, size_t, const uint8_t*, const T*, T*, T*);        \
  template void Linear<T>(size_t, size_t, size_t, const T*, const T*, const T*, T*);               \
  template void LinearBackward<T>(size_t, size_t, size_t, const T*, const T*, const T*, T*, T*,    \
                                  T*);                                                             \
  template void LayerNorm<T>(size_t, size_t, const T*, const T*, const T*, T*, T*, T*);            \
  template void LayerNormBackward<T>(size_t, size_t, const T*, const T*, const T*, const T*,       \
                                     const T*, T*, T*, T*);                                        \
  template void Gelu<T>(size_t, const T*, T*);                                                     \
  template void GeluBackward<T>(size_t, const T*, const T*, T*);                                   \
  template void Attention<T>(size_t, size_t, size_t, size_t, const T*, T*, T*);                    \
  template void AttentionBackward<T>(size_t, size_t, size_t, size_t, const T*, const T*, const T*, \
                                     T*, T*);                                                      \
  template void SoftmaxCrossEntropy<T>(size_t, size_t, T*, const uint8_t*, T*);                    \
  template void SoftmaxCrossEntropyBackward<T>(size_t, size_t, T*, const uint8_t*);
// NOLINTEND(bugprone-macro-parentheses)
POOLSCOPE_TRAINER_KERNELS(float)
POOLSCOPE_TRAINER_KERNELS(double)
#undef POOLSCOPE_TRAINER_KERNELS

}  // namespace poolscope::trainer
