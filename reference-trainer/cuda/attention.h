#pragma once

#include <cmath>

#include "reference-trainer/cuda/block.h"

// Causal attention, a block per (sequence, head, position). Twins: model/kernels.h.
namespace poolscope::trainer::cuda {

// out(i, sum) for i < width, with the sum over s < count of weight(s) × value(s, i). Threads stand
// in groups, each of which takes a part of the s; scratch[threads].
template <class Block, typename T, class Weight, class Value, class Out>
POOLSCOPE_DEVICE void WeightedSum(Block& block, T* scratch, size_t count, size_t width,
                                  Weight weight, Value value, Out out) {
  unsigned lanes = 1;
  while (lanes < width && lanes < block.threads()) lanes *= 2;
  const unsigned groups = block.threads() / lanes;
  const unsigned lane = block.thread() % lanes, group = block.thread() / lanes;
  for (size_t first = 0; first < width; first += lanes) {
    const size_t i = first + lane;
    T sum = 0;
    for (size_t s = group; s < count && i < width; s += groups) sum += weight(s) * value(s, i);
    scratch[block.thread()] = sum;
    block.Sync();
    if (group == 0 && i < width) {
      for (unsigned other = 1; other < groups; ++other) sum += scratch[other * lanes + lane];
      out(i, sum);
    }
    block.Sync();
  }
}

// What all three kernels share: where a block's position lies.
template <typename T>
struct AttentionShape {
  size_t batch, time, width, heads;

  POOLSCOPE_DEVICE size_t head_width() const { return width / heads; }
  POOLSCOPE_DEVICE T scale() const { return 1 / std::sqrt(static_cast<T>(head_width())); }
  POOLSCOPE_DEVICE size_t position(size_t block) const { return block % time; }
  // Of the head's first position in qkv[batch, time, 3 × width].
  POOLSCOPE_DEVICE size_t in_qkv(size_t block) const {
    return block / time / heads * time * 3 * width + block / time % heads * head_width();
  }
  // The same in y[batch, time, width].
  POOLSCOPE_DEVICE size_t in_y(size_t block) const {
    return block / time / heads * time * width + block / time % heads * head_width();
  }
  // Of the head's first row in weights[batch, heads, time, time].
  POOLSCOPE_DEVICE size_t in_weights(size_t block) const { return block / time * time * time; }
  Grid grid() const { return {batch * heads * time, kThreads, (kThreads + time) * sizeof(T)}; }
};

template <typename T>
POOLSCOPE_DEVICE T Dot(size_t count, const T* a, const T* b) {
  T sum = 0;
  for (size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

template <typename T>
struct AttentionForward {
  AttentionShape<T> shape;
  const T* qkv;    // [batch, time, 3 × width]
  T *weights, *y;  // [batch, heads, time, time], [batch, time, width]

  Grid grid() const { return shape.grid(); }
  template <class Block>
  POOLSCOPE_DEVICE void operator()(Block& block) const {
    auto* scratch = static_cast<T*>(block.shared());
    T* scores = scratch + block.threads();  // [time]
    const size_t width = shape.width, row = 3 * width, t = shape.position(block.index());
    const T* q = qkv + shape.in_qkv(block.index());
    const T *k = q + width, *v = k + width;
    const T scale = shape.scale();
    T top = -INFINITY;
    for (size_t s = block.thread(); s <= t; s += block.threads()) {
      scores[s] = scale * Dot(shape.head_width(), q + t * row, k + s * row);
      top = scores[s] > top ? scores[s] : top;
    }
    top = ReduceMax(block, scratch, top);
    T sum = 0;
    for (size_t s = block.thread(); s <= t; s += block.threads()) {
      sum += scores[s] = std::exp(scores[s] - top);
    }
    sum = ReduceSum(block, scratch, sum);
    T* kept = weights + shape.in_weights(block.index()) + t * shape.time;
    for (size_t s = block.thread(); s < shape.time; s += block.threads()) {
      kept[s] = s <= t ? scores[s] /= sum : T{0};
    }
    block.Sync();
    T* out = y + shape.in_y(block.index()) + t * width;
    WeightedSum(
        block, scratch, t + 1, shape.head_width(), [&](size_t s) { return scores[s]; },
        [&](size_t s, size_t i) { return v[s * row + i]; },
        [&](size_t i, T value) { out[i] = value; });
  }
};

// Through the softmax to the scores of position t, and on to its query.
template <typename T>
struct AttentionBackwardQuery {
  AttentionShape<T> shape;
  const T *qkv, *weights, *dy;
  T *dqkv, *dscores;  // [batch, time, 3 × width], [batch, heads, time, time]

  Grid grid() const { return shape.grid(); }
  template <class Block>
  POOLSCOPE_DEVICE void operator()(Block& block) const {
    auto* scratch = static_cast<T*>(block.shared());
    T* slopes = scratch + block.threads();  // [time]
    const size_t width = shape.width, row = 3 * width, t = shape.position(block.index());
    const size_t at = shape.in_qkv(block.index());
    const T *k = qkv + at + width, *v = k + width;
    const T* slope = dy + shape.in_y(block.index()) + t * width;
    const size_t weights_row = shape.in_weights(block.index()) + t * shape.time;
    T mean = 0;
    for (size_t s = block.thread(); s <= t; s += block.threads()) {
      slopes[s] = Dot(shape.head_width(), slope, v + s * row);
      mean += weights[weights_row + s] * slopes[s];
    }
    mean = ReduceSum(block, scratch, mean);
    for (size_t s = block.thread(); s <= t; s += block.threads()) {
      slopes[s] = weights[weights_row + s] * (slopes[s] - mean);
      dscores[weights_row + s] = slopes[s];
    }
    block.Sync();
    const T scale = shape.scale();
    T* dq = dqkv + at + t * row;
    WeightedSum(
        block, scratch, t + 1, shape.head_width(), [&](size_t s) { return slopes[s]; },
        [&](size_t s, size_t i) { return k[s * row + i]; },
        [&](size_t i, T value) { dq[i] = scale * value; });
  }
};

// The gradients of position s as key and value: from the positions t ≥ s that looked at it.
template <typename T>
struct AttentionBackwardKey {
  AttentionShape<T> shape;
  const T *qkv, *weights, *dy, *dscores;
  T* dqkv;

  Grid grid() const { return shape.grid(); }
  template <class Block>
  POOLSCOPE_DEVICE void operator()(Block& block) const {
    auto* scratch = static_cast<T*>(block.shared());
    const size_t width = shape.width, row = 3 * width, time = shape.time;
    const size_t s = shape.position(block.index());
    const size_t at = shape.in_qkv(block.index());
    const size_t column = shape.in_weights(block.index()) + s * time + s;  // of (t, s), t = s
    const T* q = qkv + at + s * row;
    const T* slope = dy + shape.in_y(block.index()) + s * width;
    T *dk = dqkv + at + s * row + width, *dv = dk + width;
    const T scale = shape.scale();
    WeightedSum(
        block, scratch, time - s, shape.head_width(),
        [&](size_t t) { return dscores[column + t * time]; },
        [&](size_t t, size_t i) { return q[t * row + i]; },
        [&](size_t i, T value) { dk[i] = scale * value; });
    WeightedSum(
        block, scratch, time - s, shape.head_width(),
        [&](size_t t) { return weights[column + t * time]; },
        [&](size_t t, size_t i) { return slope[t * width + i]; },
        [&](size_t i, T value) { dv[i] = value; });
  }
};

}  // namespace poolscope::trainer::cuda
