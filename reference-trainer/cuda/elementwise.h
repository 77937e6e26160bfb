#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "reference-trainer/cuda/block.h"

// Kernels that do the same to each of `count` elements. Twins: model/kernels.h, model/adamw.h.
namespace poolscope::trainer::cuda {

// Calls operation(i) for i < count, one thread each.
template <class Operation>
struct Each {
  size_t count;
  Operation operation;

  Grid grid() const { return {BlocksFor(count, kThreads), kThreads, 0}; }
  template <class Block>
  POOLSCOPE_DEVICE void operator()(Block& block) const {
    const size_t i = block.index() * block.threads() + block.thread();
    if (i < count) operation(i);
  }
};

// sum = a + b; `sum` may be one of them.
template <typename T>
struct AddEach {
  const T *a, *b;
  T* sum;
  POOLSCOPE_DEVICE void operator()(size_t i) const { sum[i] = a[i] + b[i]; }
};

// Every row of y is `row`.
template <typename T>
struct RepeatEach {
  size_t width;
  const T* row;  // [width]
  T* y;          // [rows, width]
  POOLSCOPE_DEVICE void operator()(size_t i) const { y[i] = row[i % width]; }
};

template <typename T>
struct EmbedEach {
  size_t context, width;
  const uint8_t* tokens;    // [rows]
  const T* token_table;     // [256, width]
  const T* position_table;  // [context, width]
  T* y;                     // [rows, width]
  POOLSCOPE_DEVICE void operator()(size_t i) const {
    const size_t row = i / width, column = i % width;
    y[i] = token_table[tokens[row] * width + column] +
           position_table[(row % context) * width + column];
  }
};

// Each row of a table gets the gradients of the rows that used it, in their order: no atomic
// additions, hence the same sum in every run.
template <typename T>
struct EmbedTokenBackwardEach {
  size_t rows, width;
  const uint8_t* tokens;  // [rows]
  const T* dy;            // [rows, width]
  T* dtoken_table;        // [256, width], one element each
  POOLSCOPE_DEVICE void operator()(size_t i) const {
    const size_t token = i / width, column = i % width;
    T sum = 0;
    for (size_t row = 0; row < rows; ++row) {
      if (tokens[row] == token) sum += dy[row * width + column];
    }
    dtoken_table[i] += sum;
  }
};

template <typename T>
struct EmbedPositionBackwardEach {
  size_t rows, context, width;
  const T* dy;         // [rows, width]
  T* dposition_table;  // [context, width], one element each
  POOLSCOPE_DEVICE void operator()(size_t i) const {
    T sum = 0;
    for (size_t row = i / width; row < rows; row += context) sum += dy[row * width + i % width];
    dposition_table[i] += sum;
  }
};

// The tanh form of GELU: tanh's argument is scale × (x + cubic × x³).
template <typename T>
struct GeluEach {
  T scale, cubic;
  const T* x;
  T* y;
  POOLSCOPE_DEVICE void operator()(size_t i) const {
    const T tanh = std::tanh(scale * (x[i] + cubic * x[i] * x[i] * x[i]));
    y[i] = static_cast<T>(0.5) * x[i] * (1 + tanh);
  }
};

template <typename T>
struct GeluBackwardEach {
  T scale, cubic;
  const T *x, *dy;
  T* dx;
  POOLSCOPE_DEVICE void operator()(size_t i) const {
    const T tanh = std::tanh(scale * (x[i] + cubic * x[i] * x[i] * x[i]));
    const T inner = scale * (1 + 3 * cubic * x[i] * x[i]);
    dx[i] = dy[i] * static_cast<T>(0.5) * (1 + tanh + x[i] * (1 - tanh * tanh) * inner);
  }
};

template <typename T>
struct SoftmaxCrossEntropyBackwardEach {
  size_t rows, classes;
  const uint8_t* targets;  // [rows]
  T* probabilities;        // [rows, classes]
  POOLSCOPE_DEVICE void operator()(size_t i) const {
    const T hit = i % classes == targets[i / classes] ? T{1} : T{0};
    probabilities[i] = (probabilities[i] - hit) * (1 / static_cast<T>(rows));
  }
};

// sum += values × weight rounded to a multiple of 2⁻²⁸: see AddOnGrid.
struct GridSumEach {
  float weight;
  const float* values;
  float* sum;
  POOLSCOPE_DEVICE void operator()(size_t i) const {
    constexpr double kShift = 0x1.8p24;
    sum[i] += static_cast<float>((static_cast<double>(values[i] * weight) + kShift) - kShift);
  }
};

// The upper half of a float's bits, rounded to nearest even. Not for NaN.
POOLSCOPE_DEVICE inline uint16_t ToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

POOLSCOPE_DEVICE inline float FromBf16(uint16_t half) {
  const uint32_t bits = uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

struct ToBf16Each {
  const float* values;
  uint16_t* halves;
  POOLSCOPE_DEVICE void operator()(size_t i) const { halves[i] = ToBf16(values[i]); }
};

}  // namespace poolscope::trainer::cuda
