#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "reference-trainer/model/ranges.h"

namespace poolscope::trainer {

// What an update consists of. State that is offloaded is fetched, updated and written back block by
// block; what is resident is only updated.
enum class UpdateStage { kFetch, kOptimize, kWriteBack };

// Runs `math`, a stage over that many of a shard's parameters, as somebody's work.
using RunStage =
    std::function<void(UpdateStage stage, size_t parameters, const std::function<void()>& math)>;

// An update worker's part of the model: master weights, optimizer state, sum of gradients. Used by
// its worker's thread alone.
class Shard {
 public:
  // Weights and moments, each [size of the shard].
  struct State {
    std::span<const float> master, first, second;
  };

  virtual ~Shard() = default;

  // Factor of the learning rate of the updates from now on; 1 at first.
  void set_rate(double factor) { rate_ = factor; }

  // Adds gradients[size of the shard] to the sum.
  virtual void Add(std::span<const float> gradients) = 0;
  // One AdamW update with the sum × scale, which it clears. Returns the squared norm of that.
  virtual double Update(double scale, const RunStage& run) = 0;
  double Update(double scale) {
    return Update(scale, [](UpdateStage, size_t, const auto& math) { math(); });
  }
  // [size of the shard], valid until the next call.
  virtual std::span<const float> values() = 0;

  // What a checkpoint keeps, valid until the next call.
  virtual State state() = 0;
  // Goes back to `state`, which `updates` updates made; the sum of gradients is cleared.
  virtual void Restore(const State& state, uint64_t updates) = 0;

 protected:
  double rate() const { return rate_; }

 private:
  double rate_ = 1;
};

}  // namespace poolscope::trainer
