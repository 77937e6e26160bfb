#pragma once

#include "reference-trainer/cuda/block.h"
#include "reference-trainer/cuda/elementwise.h"

namespace poolscope::trainer::cuda {

// c[m, n] = op(a)[m, k] op(b)[k, n] + beta × c, as Gemm of model/kernels.h, without a
// library: a block makes a tile of 64 × 64, a thread 4 × 4 elements of it. `bf16` rounds a and b to
// bf16 as they are read; products are added in T.
template <typename T>
struct TiledGemm {
  static constexpr unsigned kTile = 64, kDepth = 16, kSide = 16, kEach = kTile / kSide;
  bool transposed_a, transposed_b, bf16;
  size_t m, n, k;
  const T* a;
  size_t lda;
  const T* b;
  size_t ldb;
  T beta;
  T* c;
  size_t ldc;

  Grid grid() const {
    return {BlocksFor(m, kTile) * BlocksFor(n, kTile), kSide * kSide,
            2 * kDepth * kTile * sizeof(T)};
  }

  template <class Block>
  POOLSCOPE_DEVICE void operator()(Block& block) const {
    auto* tile_a = static_cast<T*>(block.shared());  // [kDepth, kTile]
    T* tile_b = tile_a + kDepth * kTile;             // [kDepth, kTile]
    const size_t columns = (n + kTile - 1) / kTile;  // of tiles
    const size_t row0 = block.index() / columns * kTile, column0 = block.index() % columns * kTile;
    const unsigned x = block.thread() % kSide, y = block.thread() / kSide;
    T sum[kEach][kEach] = {};
    for (size_t k0 = 0; k0 < k; k0 += kDepth) {
      Load(block, !transposed_a, a, lda, row0, m, k0, tile_a);
      Load(block, transposed_b, b, ldb, column0, n, k0, tile_b);
      block.Sync();
      for (unsigned depth = 0; depth < kDepth; ++depth) {
        for (unsigned i = 0; i < kEach; ++i) {
          const T left = tile_a[depth * kTile + y + i * kSide];
          for (unsigned j = 0; j < kEach; ++j) {
            sum[i][j] += left * tile_b[depth * kTile + x + j * kSide];
          }
        }
      }
      block.Sync();
    }
    for (unsigned i = 0; i < kEach; ++i) {
      for (unsigned j = 0; j < kEach; ++j) {
        const size_t row = row0 + y + i * kSide, column = column0 + x + j * kSide;
        if (row >= m || column >= n) continue;
        T& out = c[row * ldc + column];
        out = sum[i][j] + (beta == 0 ? T{0} : beta * out);
      }
    }
  }

 private:
  // tile[depth, line] = the element (line0 + line, k0 + depth) of a matrix of `lines` × k, zero
  // outside; `k_inside`: k is the dimension without stride. Neighbouring threads read neighbours.
  template <class Block>
  POOLSCOPE_DEVICE void Load(Block& block, bool k_inside, const T* from, size_t stride,
                             size_t line0, size_t lines, size_t k0, T* tile) const {
    for (unsigned e = block.thread(); e < kDepth * kTile; e += block.threads()) {
      const unsigned line = k_inside ? e / kDepth : e % kTile;
      const unsigned depth = k_inside ? e % kDepth : e / kTile;
      const size_t at = line0 + line, inner = k0 + depth;
      T value = 0;
      if (at < lines && inner < k) {
        value = k_inside ? from[at * stride + inner] : from[inner * stride + at];
      }
      tile[depth * kTile + line] =
          bf16 ? static_cast<T>(FromBf16(ToBf16(static_cast<float>(value)))) : value;
    }
  }
};

}  // namespace poolscope::trainer::cuda
