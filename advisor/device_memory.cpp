#include "advisor/device_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

namespace poolscope {
namespace {

using ByWorker = std::map<std::pair<std::string, int64_t>, double>;  // (pool, index)

// The largest value of a counter on each worker's threads, over the whole run: a job may tell it
// once, at its start.
Result<ByWorker> Largest(const Store& store, const RunData& run,
                         const std::vector<TrackRow>& tracks, const std::string& counter) {
  ByWorker largest;
  const Result<uint32_t> name = store.FindString(counter);
  if (!name) return name.error();
  if (*name == 0) return largest;
  for (const TrackRow& track : tracks) {
    if (track.kind != static_cast<uint32_t>(EventKind::kCounter) || track.counter != *name) {
      continue;
    }
    const auto thread =
        std::find_if(run.threads.begin(), run.threads.end(),
                     [&](const ThreadRow& row) { return row.thread_id == track.thread_id; });
    if (thread == run.threads.end() || thread->pool.empty()) continue;
    const Result<std::vector<ChunkRow>> chunks = store.Chunks(track.track_id, {});
    if (!chunks) return chunks.error();
    for (const ChunkRow& chunk : *chunks) {
      double& value = largest[{thread->pool, thread->worker_index}];
      value = std::max(value, chunk.max_value.value_or(0));
    }
  }
  return largest;
}

// NVML's index, or the start of an UUID, of the device that the process calls `number`, where
// CUDA's driver did not tell the UUID itself.
std::string DriversDevice(const std::string& visible, int64_t number) {
  size_t at = 0;
  for (int64_t skip = number; skip > 0 && at != std::string::npos; --skip) {
    at = visible.find(',', at);
    if (at != std::string::npos) ++at;
  }
  if (visible.empty() || at == std::string::npos) return std::to_string(number);
  return visible.substr(at, visible.find(',', at) - at);
}

// Devices of the pool's workers: host, and index or UUID.
Result<std::set<std::pair<std::string, std::string>>> Devices(const Store& store,
                                                              const RunData& run,
                                                              const std::string& pool) {
  std::set<std::pair<std::string, std::string>> devices;
  for (const WorkerRow& worker : run.workers) {
    constexpr std::string_view kCuda = "cuda:";
    if (worker.pool != pool || worker.device.rfind(kCuda, 0) != 0) continue;
    int64_t number = 0;
    const char* const end = worker.device.data() + worker.device.size();
    if (std::from_chars(worker.device.data() + kCuda.size(), end, number).ptr != end) continue;
    std::string host = run.run.host;
    for (const ProcessRow& process : run.processes) {
      if (process.session_id == worker.session_id) host = process.host;
    }
    const Result<std::vector<ProcessFactRow>> facts = store.ProcessFacts(worker.session_id);
    if (!facts) return facts.error();
    std::string visible, uuid;
    for (const ProcessFactRow& fact : *facts) {
      if (fact.key == "env.CUDA_VISIBLE_DEVICES") visible = fact.value;
      if (fact.key == fmt::format("device.{}", number)) uuid = fact.value;
    }
    devices.emplace(host, uuid.empty() ? DriversDevice(visible, number) : "GPU-" + uuid);
  }
  return devices;
}

}  // namespace

Result<std::map<std::string, DeviceMemory>> ReadDeviceMemory(const Store& store, const RunData& run,
                                                             const AnalysedSpan& span) {
  const Result<std::vector<DeviceWindowRow>> windows =
      store.DeviceWindows(run.run.run_id, {span.begin_ns, span.end_ns});
  if (!windows) return windows.error();
  const Result<std::vector<TrackRow>> tracks = store.Tracks(run.run.run_id);
  if (!tracks) return tracks.error();
  const Result<ByWorker> state = Largest(store, run, *tracks, "optimizer_state_bytes");
  if (!state) return state.error();
  const Result<ByWorker> offloaded =
      Largest(store, run, *tracks, "optimizer_state_bytes.offloaded");
  if (!offloaded) return offloaded.error();
  std::map<std::string, DeviceMemory> pools;
  for (const PoolRow& row : run.pools) {
    DeviceMemory& pool = pools[row.pool];
    const auto smallest = [&pool](double bytes, const std::string& from) {
      if (bytes <= 0 || (pool.memory_bytes > 0 && pool.memory_bytes <= bytes)) return;
      pool.memory_bytes = bytes;
      pool.memory_from = from;
    };
    const auto fullest = [&pool](double bytes, const std::string& from) {
      if (bytes <= pool.used_bytes) return;
      pool.used_bytes = bytes;
      pool.used_from = from;
    };
    smallest(run.Number(row.pool + ".memory_bytes").value_or(0), "memory_bytes of the mapping");
    const bool stated = pool.memory_bytes > 0;
    for (const char* what : {".device_memory_capacity_bytes", ".device_memory_bytes"}) {
      const bool capacity = what == std::string_view(".device_memory_capacity_bytes");
      const Result<ByWorker> told = Largest(store, run, *tracks, row.pool + what);
      if (!told) return told.error();
      for (const auto& [worker, bytes] : *told) {
        if (worker.first != row.pool) continue;
        if (!capacity) fullest(bytes, "counter " + row.pool + what);
        if (capacity && !stated) smallest(bytes, "counter " + row.pool + what);
      }
    }
    const auto devices = Devices(store, run, row.pool);
    if (!devices) return devices.error();
    const bool used_told = pool.used_bytes > 0;
    const bool memory_told = pool.memory_bytes > 0;
    for (const DeviceWindowRow& window : *windows) {
      const bool own = std::any_of(devices->begin(), devices->end(), [&window](const auto& device) {
        return device.first == window.host &&
               (device.second == std::to_string(window.device) ||
                (device.second.size() > 4 && window.uuid.rfind(device.second, 0) == 0));
      });
      if (!own) continue;
      if (!used_told) fullest(double(window.memory_used_bytes.value_or(0)), "NVML");
      if (!memory_told) smallest(double(window.memory_bytes.value_or(0)), "NVML");
    }
    for (const auto& [worker, bytes] : *state) {
      if (worker.first != row.pool) continue;
      const auto away = offloaded->find(worker);
      pool.state_bytes += bytes - (away == offloaded->end() ? 0 : away->second);
    }
  }
  return pools;
}

}  // namespace poolscope
