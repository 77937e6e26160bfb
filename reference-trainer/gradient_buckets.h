#pragma once

#include <cstdint>
#include <vector>

#include "reference-trainer/model/parameters.h"
#include "reference-trainer/model/ranges.h"

namespace poolscope::trainer {

// How the gradients of a pass go out while its backward part goes on: in buckets of about equal
// size, from the end of the parameters to their beginning, as stages of the model complete them.
// Each bucket is a message, a piece, to every shard that owns a part of it.
class GradientBuckets {
 public:
  struct Piece {
    size_t shard = 0;
    uint64_t number = 0;  // of the shard's pieces, in the order of sending
    Part part;            // of the shard's values
    Ranges ranges;        // where they lie among all
    uint64_t bytes = 0;   // before encoding
  };
  struct Bucket {
    size_t last_stage = 0;  // whose backward completes it
    std::vector<Piece> pieces;
  };

  // Of shards[bytes.size()] of a model, which are empty where nothing is computed; bytes of each.
  GradientBuckets(uint64_t count, const GptShape& shape, const std::vector<Ranges>& shards,
                  const std::vector<uint64_t>& bytes);

  const std::vector<Bucket>& buckets() const { return buckets_; }  // in the order of sending
  uint64_t PiecesOf(size_t shard) const { return pieces_[shard].size(); }
  const Piece& PieceOf(size_t shard, uint64_t number) const { return pieces_[shard][number]; }

 private:
  std::vector<Bucket> buckets_;
  std::vector<std::vector<Piece>> pieces_;  // by shard
};

}  // namespace poolscope::trainer
