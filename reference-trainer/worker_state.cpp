#include "reference-trainer/worker_state.h"

#include <fmt/format.h>

namespace poolscope::trainer {
namespace {

// What copying `bytes` from the device costs where it is emulated.
double CopySeconds(const Job& job, uint64_t bytes) {
  const double rate = job.options().state.offload.bytes_per_second;
  return rate > 0 ? static_cast<double>(bytes) / rate : 0;
}

void Give(Job& job, Device& device, uint64_t step, double seconds,
          const std::function<void(TrainingState&)>& copy) {
  if (job.checkpoints->Give(step, device, seconds, copy)) return;
  job.CheckRunning();
  throw Abandoned{};
}

}  // namespace

void GiveShard(Job& job, Device& device, Shard* shard, size_t index, uint64_t step, bool last,
               const std::function<void(TrainingState&)>& more) {
  if (!job.checkpoints || !job.checkpoints->Due(step, last)) return;
  const StateSizes& sizes = job.ShardState(index);
  const uint64_t resident = 12 * (sizes.parameters - sizes.offloaded_parameters);
  Give(job, device, step, CopySeconds(job, resident), [&](TrainingState& state) {
    if (index == 0) state.data = job.coordinator->PositionAt(step);
    if (shard) CopyOut(*shard, job.ShardRanges(index), state);
    if (more) more(state);
  });
}

void GiveReplica(Job& job, Device& device, Replica* replica, size_t index, uint64_t step, bool last,
                 const std::function<void(std::span<float>)>& residual) {
  const Checkpoints* const checkpoints = job.checkpoints.get();
  if (!checkpoints || !checkpoints->Takes(index) || !checkpoints->Due(step, last)) return;
  const double seconds = checkpoints->full() ? CopySeconds(job, job.options().weight_bytes) : 0;
  Give(job, device, step, seconds, [&](TrainingState& state) {
    const auto find = [&](const char* kind) {
      return state.arrays.find(fmt::format("{}/{}", kind, index));
    };
    if (const auto own = find("residual"); own != state.arrays.end()) residual(own->second);
    if (const auto own = find("replica"); own != state.arrays.end()) {
      const auto values = replica->values();
      std::copy(values.begin(), values.end(), own->second.begin());
    }
  });
}

std::vector<float> ResidualOf(const TrainingState& state, size_t index, size_t workers) {
  std::vector<float> sum;
  for (size_t from = index;; from += workers) {
    const auto found = state.arrays.find(fmt::format("residual/{}", from));
    if (found == state.arrays.end()) return sum;
    sum.resize(found->second.size(), 0);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += found->second[i];
  }
}

}  // namespace poolscope::trainer
