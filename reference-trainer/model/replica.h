#pragma once

#include <cstdint>
#include <span>

#include "reference-trainer/data.h"
#include "reference-trainer/model/ranges.h"

namespace poolscope::trainer {

// A replica that runs a micro-batch stage by stage (see Stage): Begin, all stages forward, all of
// them backward. The last one backward adds the gradients to the sum.
class StagedReplica {
 public:
  virtual void Begin(const Batch& batch) = 0;  // which must live until the last stage backward
  virtual void ForwardStage(size_t stage) = 0;
  virtual void BackwardStage(size_t stage) = 0;
  // Mean loss in nats, after the last stage forward.
  virtual double Loss() = 0;
  // Tokens that each expert of `layer` got, once its Stage::kLayer has run forward.
  virtual std::span<const uint64_t> ExpertLoad(size_t layer) const = 0;
  // These weights are no longer held: NaN until they are installed again.
  virtual void Forget(const Ranges& ranges) = 0;

 protected:
  ~StagedReplica() = default;
};

// What a compute worker computes with: all weights, the activations of one micro-batch and the sum
// of gradients over several. Used by its worker's thread alone.
class Replica {
 public:
  virtual ~Replica() = default;

  // Mean loss in nats of `batch`, which must live until Backward; of no more sequences than the
  // replica was made for.
  virtual double Forward(const Batch& batch) = 0;
  // Adds the gradients of the last Forward × the batch's weight to the sum, each rounded to a
  // multiple of 2⁻²⁸: sums below 2⁻⁴ are then exact, in whatever order and by however many workers
  // they are added. Without this, AdamW blows up the rounding errors of gradients near zero, and
  // the loss curves of one and of several workers part.
  virtual void Backward() = 0;
  virtual void ClearGradients() = 0;
  // The same replica stage by stage; null where it cannot.
  virtual StagedReplica* staged() { return nullptr; }

  // The sum of gradients of a shard, [SizeOf(ranges)]; valid until the next call.
  virtual std::span<const float> Gradients(const Ranges& ranges) = 0;
  // All weights, [parameters]; valid until the next call.
  virtual std::span<const float> values() = 0;
  // Installs the weights of a shard, values[SizeOf(ranges)].
  virtual void Install(const Ranges& ranges, std::span<const float> values) = 0;
};

}  // namespace poolscope::trainer
