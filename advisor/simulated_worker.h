#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "advisor/random.h"
#include "advisor/simulation.h"

// One worker inside the simulation: where it is in its loop, and what it has spent its time on.
namespace poolscope {

enum class Doing : uint8_t { kBusy, kBlocked, kWaitLink, kWaitCredit, kOther, kCount };
enum class Phase : uint8_t { kBegin, kOperations, kEncode, kHandOver, kReceive };
// What a sleeping worker is woken by.
enum class Sleep : uint8_t { kNo, kMessage, kSlot, kCredit };

struct SimulatedWorker {
  bool is_compute = false;
  int index = 0;
  Phase phase = Phase::kBegin;
  Sleep sleep = Sleep::kNo;
  Doing doing = Doing::kOther;
  double since = 0;
  std::array<double, static_cast<size_t>(Doing::kCount)> spent{};  // ns
  Random random{0};
  // Progress.
  size_t operation = 0;
  bool step_operations = false;  // in the operations made once per step
  int micro_batch = 0;
  int attempt = 0;
  int destination = 0;
  uint64_t blocked_order = 0;  // grows with the time of becoming blocked; 0: it is not
  int received = 0;            // messages of this step: weights (compute) or gradients (update)
  int version = 0;             // held (compute) or made (update)
  std::vector<int> shards;     // compute: the version held of each shard
  std::map<int, int> early;    // asynchronous update: accepted messages of later steps
  std::vector<int> undecided;  // asynchronous update: attempts that wait for admission

  void Become(double now, Doing next) {
    spent[static_cast<size_t>(doing)] += now - since;
    since = now;
    doing = next;
  }
};

// Means over the workers of one pool.
inline SimulatedStates MeanStates(const std::vector<SimulatedWorker>& workers, bool compute,
                                  double wall_ns) {
  double count = 0;
  std::array<double, static_cast<size_t>(Doing::kCount)> sum{};
  for (const SimulatedWorker& worker : workers) {
    if (worker.is_compute != compute) continue;
    ++count;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += worker.spent[i];
  }
  if (count == 0 || wall_ns <= 0) return {};
  const auto share = [&](Doing doing) {
    return sum[static_cast<size_t>(doing)] / (count * wall_ns);
  };
  return {share(Doing::kBusy), share(Doing::kBlocked), share(Doing::kWaitLink),
          share(Doing::kWaitCredit), share(Doing::kOther)};
}

}  // namespace poolscope
