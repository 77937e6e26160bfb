#include "collector/seen.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

namespace poolscope {

std::string Seen::Thread::Title() const {
  if (row.name.empty()) return fmt::format("thread {} of pid {}", row.tid, process->row.pid);
  return fmt::format("{} of pid {}", row.name, process->row.pid);
}

RangeFacts Seen::Range::facts(std::string_view pool) const {
  RangeFacts facts{domain, category, name, thread->row.name, pool, ""};
  if (thread->lane.has_value()) facts.communicator = thread->lane->communicator;
  return facts;
}

Result<Seen> ReadSeen(const Store& store, const std::string& run) {
  Seen seen;
  auto row = store.FindRun(run);
  if (!row.ok()) return row.error();
  seen.run = std::move(*row);
  const std::string& id = seen.run.run_id;
  auto links = store.Links(id);
  if (!links.ok()) return links.error();
  seen.links = std::move(*links);
  const auto processes = store.Processes(id);
  if (!processes.ok()) return processes.error();
  for (const ProcessRow& process : *processes) {
    auto facts = ProcessFacts::Load(store, process);
    if (!facts.ok()) return facts.error();
    seen.processes[process.session_id] = {process, std::move(*facts)};
  }
  const auto threads = store.Threads(id);
  if (!threads.ok()) return threads.error();
  for (const ThreadRow& thread : *threads) {
    const auto process = seen.processes.find(thread.session_id);
    if (process == seen.processes.end() || (thread.tid & kMappedTid) != 0) continue;
    seen.threads[thread.thread_id] = {
        thread, &process->second, process->second.facts.LaneOf(static_cast<uint32_t>(thread.tid))};
  }

  struct Sum {
    int64_t events = 0, total_ns = 0;
  };
  std::map<std::tuple<int64_t, uint32_t, uint32_t, uint32_t>, Sum> sums;
  std::map<std::pair<uint32_t, uint32_t>, int64_t> samples;  // by domain and name
  const auto annotated = store.FindString(kPoolscopeDomain);
  if (!annotated.ok()) return annotated.error();
  const auto read = store.ReadEvents(id, {}, [&](const TrackRow& track, const EventBatch& batch) {
    const auto thread = seen.threads.find(track.thread_id);
    if (thread == seen.threads.end()) return true;
    thread->second.events += static_cast<int64_t>(batch.events.size());
    if (track.kind == static_cast<uint32_t>(EventKind::kCounter)) {
      if (batch.events.empty() || batch.events.front().domain == *annotated) return true;
      samples[{batch.events.front().domain, track.counter}] += std::ssize(batch.events);
      return true;
    }
    for (const Event& event : batch.events) {
      thread->second.ranges_ns += event.duration_ns;
      if (event.domain == *annotated && *annotated != 0) {
        thread->second.annotated = true;
        continue;
      }
      Sum& sum = sums[{track.thread_id, event.domain, event.category, event.name}];
      ++sum.events;
      sum.total_ns += event.duration_ns;
    }
    return true;
  });
  if (!read.ok()) return read.error();
  for (const auto& [key, sum] : sums) {
    const auto& [thread_id, domain, category, name] = key;
    const Seen::Thread& thread = seen.threads.at(thread_id);
    const auto domain_text = store.String(domain);
    if (!domain_text.ok()) return domain_text.error();
    const auto name_text = store.String(name);
    if (!name_text.ok()) return name_text.error();
    seen.ranges.push_back({*domain_text,
                           std::string(thread.process->facts.CategoryName(*domain_text, category)),
                           *name_text, &thread, sum.events, sum.total_ns});
  }
  for (const auto& [key, count] : samples) {
    const auto domain_text = store.String(key.first);
    if (!domain_text.ok()) return domain_text.error();
    const auto name_text = store.String(key.second);
    if (!name_text.ok()) return name_text.error();
    seen.counters.push_back({*domain_text, *name_text, count});
  }
  std::stable_sort(seen.ranges.begin(), seen.ranges.end(),
                   [](const auto& a, const auto& b) { return a.total_ns > b.total_ns; });
  return seen;
}

}  // namespace poolscope
