#include "reference-trainer/faults.h"

#include <algorithm>
#include <cmath>

#include "reference-trainer/data.h"

namespace poolscope::trainer {
namespace {

constexpr uint64_t kBurst = 32;

// In [0, 1).
double Uniform(uint64_t& state) { return static_cast<double>(SplitMix64(state) >> 11) * 0x1p-53; }

}  // namespace

Fate FateOf(const Faults& faults, uint64_t seed, const BlockHeader& block, bool copy) {
  uint64_t state = seed;
  for (const uint64_t part : {uint64_t{static_cast<uint32_t>(block.kind)}, uint64_t{block.source},
                              uint64_t{block.destination}, block.message, uint64_t{block.part},
                              uint64_t{block.attempt}, uint64_t{copy}}) {
    state ^= part;
    state = SplitMix64(state);
  }
  Fate fate;
  fate.lost = Uniform(state) < faults.loss;
  const bool damaged = Uniform(state) < faults.corruption;
  fate.held = Uniform(state) < faults.reorder;
  fate.repeated = Uniform(state) < faults.duplicate;
  const double delay = -std::log1p(-Uniform(state)) * static_cast<double>(faults.delay_ns);
  fate.delay_ns = static_cast<int64_t>(delay);
  if (damaged) fate.damage = SplitMix64(state) | 1;
  return fate;
}

void Damage(std::span<uint8_t> wire, uint64_t damage) {
  const uint64_t bits = wire.size() * 8;
  const uint64_t first = (damage >> 32) % bits;
  // Its lowest bit is set: at least the first one is inverted.
  for (uint64_t i = 0; i < kBurst && first + i < bits; ++i) {
    if ((damage >> i & 1) != 0) wire[(first + i) / 8] ^= uint8_t(1U << ((first + i) % 8));
  }
}

}  // namespace poolscope::trainer
