#include "advisor/pool_limits.h"

#include <fmt/format.h>

#include <algorithm>

namespace poolscope {
namespace {

// "emulated:a100@1" and "cuda:0" are devices, "emulated:a100" and "cuda" their types.
std::string TypeOf(std::string device) {
  const size_t number = device.find_last_not_of("0123456789");
  if (number != std::string::npos && number + 1 < device.size() &&
      (device[number] == '@' || device[number] == ':')) {
    device.resize(number);
  }
  return device;
}

std::string Gigabytes(double bytes) { return fmt::format("{:.4g} GB", bytes / 1e9); }

double MessageBytes(const LinkModel& link, const Model& model) {
  return link.raw_bytes * link.codec.ratio / model.update.workers;
}

// Of one worker: what it receives, buffers full, and a message that it sends.
double BufferBytes(bool update, const Model& model) {
  const LinkModel& in = update ? model.gradients : model.weights;
  const LinkModel& out = update ? model.weights : model.gradients;
  return in.depth * MessageBytes(in, model) + MessageBytes(out, model);
}

}  // namespace

Result<PoolLimits> PoolLimits::Read(const Store& store, const RunData& run,
                                    const AnalysedSpan& span) {
  Result<std::map<std::string, DeviceMemory>> memory = ReadDeviceMemory(store, run, span);
  if (!memory) return memory.error();
  PoolLimits limits;
  for (const PoolRow& row : run.pools) {
    const auto said = [&](const char* what, double otherwise) {
      return static_cast<int>(
          std::clamp(run.Number(row.pool + what).value_or(otherwise), otherwise, 1e6));
    };
    limits.pools_[row.pool] = {
        said(".devices_per_replica", 1), said(".batch", 0),
        run.Text(row.pool + ".device_type", TypeOf(run.Text(row.pool + ".device"))),
        std::move((*memory)[row.pool])};
  }
  return limits;
}

std::string PoolLimits::WhyNot(const Model& now, const Model& changed) const {
  for (const auto& [before, after] :
       {std::pair(&now.compute, &changed.compute), std::pair(&now.update, &changed.update)}) {
    if (before->workers == after->workers) continue;
    const Pool& pool = pools_.at(after->name);
    if (after->workers % pool.block != 0) {
      return fmt::format("{} workers of {} are no whole replicas of {} (devices_per_replica)",
                         after->workers, after->name, pool.block);
    }
    const int replicas = after->workers / pool.block;
    if (pool.batch > 0 && pool.batch % replicas != 0) {
      return fmt::format("{} replicas of {} do not divide its batch of {}", replicas, after->name,
                         pool.batch);
    }
  }
  const std::string& compute = pools_.at(now.compute.name).device_type;
  const std::string& update = pools_.at(now.update.name).device_type;
  const int64_t more_compute = changed.compute.workers - now.compute.workers;
  const int64_t more_update = changed.update.workers - now.update.workers;
  if (more_compute * more_update >= 0 || compute.empty() || update.empty() || compute == update)
    return "";
  return fmt::format("workers of {} have devices of type {}, those of {} {}: they exchange none",
                     now.compute.name, compute, now.update.name, update);
}

// Compute workers are whole replicas. Of the update pool the optimizer state is in shards, and
// where the job does not tell how large that is, so is all that its devices hold; unless it moves
// in replicas, each of which keeps its devices.
MemoryEstimate PoolLimits::Estimate(bool update, const Model& now, const Model& changed) const {
  const PoolModel& before = update ? now.update : now.compute;
  const PoolModel& after = update ? changed.update : changed.compute;
  const PoolModel& other_before = update ? now.compute : now.update;
  const PoolModel& other_after = update ? changed.compute : changed.update;
  const Pool& pool = pools_.at(before.name);
  const DeviceMemory& held = pool.memory;
  MemoryEstimate estimate{before.name, 0, held.used_bytes, held.memory_bytes, "", held.memory_from};
  // Devices that come from the other pool may be smaller.
  const DeviceMemory& other = pools_.at(other_before.name).memory;
  if (after.workers > before.workers && other_after.workers < other_before.workers &&
      other.memory_bytes > 0 &&
      (held.memory_bytes == 0 || other.memory_bytes < held.memory_bytes)) {
    estimate.memory_bytes = other.memory_bytes;
    estimate.memory_from = fmt::format("of {}'s: {}", other_before.name, other.memory_from);
  }

  const double buffers_before = BufferBytes(update, now);
  const double buffers_after = BufferBytes(update, changed);
  std::vector<std::string> basis;
  double growth = buffers_after - buffers_before;
  if (buffers_after > 0) {
    basis.push_back(
        fmt::format("full buffers and a message under way {}", Gigabytes(buffers_after)));
  }
  const bool shards = update && pool.block == 1;
  const double fewer = static_cast<double>(before.workers) / after.workers;
  const double state = held.state_bytes / before.workers;
  if (held.state_bytes > 0) {
    const double then = shards ? state * fewer : state;
    growth += then - state;
    basis.push_back(fmt::format("optimizer state {}", Gigabytes(then)));
  } else if (shards && after.workers != before.workers && held.used_bytes > 0) {
    growth += std::max(0.0, held.used_bytes - buffers_before) * (fewer - 1);
    basis.push_back("all else taken as shards, since no optimizer_state_bytes is told");
  }
  if (held.used_bytes > 0) {
    estimate.needed_bytes = std::max(0.0, held.used_bytes + growth);
    basis.insert(basis.begin(),
                 fmt::format("it holds {} now ({})", Gigabytes(held.used_bytes), held.used_from));
  } else {
    estimate.needed_bytes = buffers_before + state + growth;
    basis.insert(basis.begin(), "at least, what it holds is not known");
  }
  for (const std::string& part : basis) {
    estimate.basis += (estimate.basis.empty() ? "" : ", ") + part;
  }
  return estimate;
}

std::vector<MemoryEstimate> PoolLimits::Memory(const Model& now, const Model& changed) const {
  std::vector<MemoryEstimate> memory;
  for (const bool update : {false, true}) {
    MemoryEstimate estimate = Estimate(update, now, changed);
    if (estimate.memory_bytes == 0 && estimate.used_bytes == 0) continue;
    const MemoryEstimate as_it_is = Estimate(update, now, now);
    if (as_it_is.memory_bytes > 0 && as_it_is.needed_bytes > as_it_is.memory_bytes) {
      estimate.memory_from =
          fmt::format("not judged: by these figures it needs {} of {} as it is",
                      Gigabytes(as_it_is.needed_bytes), Gigabytes(as_it_is.memory_bytes));
      estimate.memory_bytes = 0;
    }
    memory.push_back(std::move(estimate));
  }
  return memory;
}

std::string WhatDoesNotFit(const std::vector<MemoryEstimate>& memory) {
  for (const MemoryEstimate& pool : memory) {
    if (pool.memory_bytes == 0 || pool.needed_bytes <= pool.memory_bytes) continue;
    return fmt::format("a device of {} would need {}, more than its {} ({}; {})", pool.pool,
                       Gigabytes(pool.needed_bytes), Gigabytes(pool.memory_bytes), pool.memory_from,
                       pool.basis);
  }
  return "";
}

std::string MemoryAsText(const MemoryEstimate& pool) {
  std::string memory = "how much it has is not known";
  if (pool.memory_bytes > 0) {
    memory = fmt::format("of {} ({})", Gigabytes(pool.memory_bytes), pool.memory_from);
  } else if (!pool.memory_from.empty()) {
    memory = pool.memory_from;
  }
  return fmt::format("a device of {} needs {}, {}: {}", pool.pool, Gigabytes(pool.needed_bytes),
                     memory, pool.basis);
}

}  // namespace poolscope
