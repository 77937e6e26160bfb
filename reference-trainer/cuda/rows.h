#pragma once

#include <cmath>
#include <cstdint>

#include "reference-trainer/cuda/block.h"

// Kernels with a block per row, and sums over rows. Twins: model/kernels.h.
namespace poolscope::trainer::cuda {

template <typename T>
struct LayerNormRows {
  size_t rows, width;
  T epsilon;
  const T *x, *gain, *bias;  // [rows, width], [width], [width]
  T *y, *mean, *rstd;        // [rows, width], [rows], [rows]

  Grid grid() const { return {rows, kThreads, kThreads * sizeof(T)}; }
  template <class Block>
  POOLSCOPE_DEVICE void operator()(Block& block) const {
    auto* scratch = static_cast<T*>(block.shared());
    const T* from = x + block.index() * width;
    T sum = 0;
    for (size_t i = block.thread(); i < width; i += block.threads()) sum += from[i];
    const T center = ReduceSum(block, scratch, sum) / static_cast<T>(width);
    T squares = 0;
    for (size_t i = block.thread(); i < width; i += block.threads()) {
      squares += (from[i] - center) * (from[i] - center);
    }
    const T variance = ReduceSum(block, scratch, squares) / static_cast<T>(width);
    const T scale = 1 / std::sqrt(variance + epsilon);
    for (size_t i = block.thread(); i < width; i += block.threads()) {
      y[block.index() * width + i] = (from[i] - center) * scale * gain[i] + bias[i];
    }
    if (block.thread() == 0) {
      mean[block.index()] = center;
      rstd[block.index()] = scale;
    }
  }
};

// Adds to dx; the parameters' gradients are ColumnSums of NormSlope and Element.
template <typename T>
struct LayerNormBackwardRows {
  size_t rows, width;
  const T *x, *gain, *mean, *rstd, *dy;
  T* dx;  // [rows, width]

  Grid grid() const { return {rows, kThreads, kThreads * sizeof(T)}; }
  template <class Block>
  POOLSCOPE_DEVICE void operator()(Block& block) const {
    auto* scratch = static_cast<T*>(block.shared());
    const size_t row = block.index();
    T slope = 0, slope_norm = 0;  // of dy × gain, of dy × gain × normalized
    for (size_t i = block.thread(); i < width; i += block.threads()) {
      const T scaled = dy[row * width + i] * gain[i];
      slope += scaled;
      slope_norm += scaled * (x[row * width + i] - mean[row]) * rstd[row];
    }
    slope = ReduceSum(block, scratch, slope) / static_cast<T>(width);
    slope_norm = ReduceSum(block, scratch, slope_norm) / static_cast<T>(width);
    for (size_t i = block.thread(); i < width; i += block.threads()) {
      const T norm = (x[row * width + i] - mean[row]) * rstd[row];
      dx[row * width + i] +=
          (dy[row * width + i] * gain[i] - slope - norm * slope_norm) * rstd[row];
    }
  }
};

// Turns logits into probabilities, in place.
template <typename T>
struct SoftmaxCrossEntropyRows {
  size_t rows, classes;
  const uint8_t* targets;  // [rows]
  T *logits, *losses;      // [rows, classes], [rows]

  Grid grid() const { return {rows, kThreads, kThreads * sizeof(T)}; }
  template <class Block>
  POOLSCOPE_DEVICE void operator()(Block& block) const {
    auto* scratch = static_cast<T*>(block.shared());
    T* each = logits + block.index() * classes;
    T top = each[0];
    for (size_t i = block.thread(); i < classes; i += block.threads()) {
      top = each[i] > top ? each[i] : top;
    }
    top = ReduceMax(block, scratch, top);
    const T target = each[targets[block.index()]] - top;
    block.Sync();  // all have read before one writes
    T sum = 0;
    for (size_t i = block.thread(); i < classes; i += block.threads()) {
      sum += each[i] = std::exp(each[i] - top);
    }
    sum = ReduceSum(block, scratch, sum);
    for (size_t i = block.thread(); i < classes; i += block.threads()) each[i] /= sum;
    if (block.thread() == 0) losses[block.index()] = std::log(sum) - target;
  }
};

// values[rows, width], as ColumnSums wants them.
template <typename T>
struct Element {
  size_t width;
  const T* values;
  POOLSCOPE_DEVICE T operator()(size_t row, size_t column) const {
    return values[row * width + column];
  }
};

// dy × normalized x: what a layer norm's gain gets.
template <typename T>
struct NormSlope {
  size_t width;
  const T *x, *mean, *rstd, *dy;
  POOLSCOPE_DEVICE T operator()(size_t row, size_t column) const {
    const size_t i = row * width + column;
    return dy[i] * (x[i] - mean[row]) * rstd[row];
  }
};

// out[width] += the sum of value(row, column) over rows. A block has 32 columns, so that a warp
// reads consecutive elements, and a group of threads per part of the rows.
template <typename T, class Value>
struct ColumnSums {
  static constexpr unsigned kColumns = 32;
  size_t rows, width;
  Value value;
  T* out;

  Grid grid() const { return {BlocksFor(width, kColumns), 256, 256 * sizeof(T)}; }
  template <class Block>
  POOLSCOPE_DEVICE void operator()(Block& block) const {
    auto* scratch = static_cast<T*>(block.shared());
    const unsigned groups = block.threads() / kColumns, group = block.thread() / kColumns;
    const size_t column = block.index() * kColumns + block.thread() % kColumns;
    T sum = 0;
    for (size_t row = group; row < rows && column < width; row += groups) sum += value(row, column);
    scratch[block.thread()] = sum;
    block.Sync();
    if (group > 0 || column >= width) return;
    for (unsigned other = 1; other < groups; ++other) {
      sum += scratch[block.thread() + other * kColumns];
    }
    out[column] += sum;
  }
};

// partial[blocks ≤ kMaxBlocks] of the sum of values, or of their squares, in double.
template <typename T>
struct PartialSums {
  static constexpr size_t kMaxBlocks = 256;
  size_t count;
  bool squared;
  const T* values;
  double* partial;

  Grid grid() const {
    const size_t blocks = BlocksFor(count, 256);
    return {blocks < kMaxBlocks ? blocks : kMaxBlocks, 256, 256 * sizeof(double)};
  }
  template <class Block>
  POOLSCOPE_DEVICE void operator()(Block& block) const {
    double sum = 0;
    const size_t first = block.index() * block.threads() + block.thread();
    for (size_t i = first; i < count; i += kMaxBlocks * block.threads()) {
      const auto each = static_cast<double>(values[i]);
      sum += squared ? each * each : each;
    }
    sum = ReduceSum(block, static_cast<double*>(block.shared()), sum);
    if (block.thread() == 0) partial[block.index()] = sum;
  }
};

}  // namespace poolscope::trainer::cuda
