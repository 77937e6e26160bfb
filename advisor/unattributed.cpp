#include "advisor/unattributed.h"

#include <algorithm>
#include <map>
#include <set>

namespace poolscope {
namespace {

constexpr int64_t kEventBudget = 400'000;  // decoded in search of ranges without a meaning
constexpr int64_t kLeastPerTrack = 2'000;
constexpr std::string_view kInferred = "inferred.";

using Kind = std::pair<uint32_t, uint32_t>;  // domain, name

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

class Finder {
 public:
  Finder(const Store& store, const RunData& run) : store_(store), run_(run) {}

  Result<Unattributed> Find() {
    for (const ProcessRow& process : run_.processes) pids_[process.session_id] = process.pid;
    for (const ThreadRow& thread : run_.threads) threads_[thread.thread_id] = &thread;
    auto tracks = store_.Tracks(run_.run.run_id);
    if (!tracks) return tracks.error();
    tracks->erase(std::remove_if(tracks->begin(), tracks->end(),
                                 [&](const TrackRow& track) {
                                   return track.kind != static_cast<uint32_t>(EventKind::kRange) ||
                                          threads_.count(track.thread_id) == 0;
                                 }),
                  tracks->end());
    if (Status status = TakeThreads(*tracks); !status) return status.error();
    if (Status status = TakeRanges(*tracks); !status) return status.error();
    for (const auto& [key, value] : run_.settings) {
      if (key.rfind(kInferred, 0) == 0) {
        found_.inferred.push_back({key.substr(kInferred.size()), value});
      }
    }
    return std::move(found_);
  }

 private:
  Status TakeThreads(const std::vector<TrackRow>& tracks) {
    double all = 0;
    for (const TrackRow& track : tracks) {
      const ThreadRow& thread = *threads_[track.thread_id];
      if ((thread.tid & kMappedTid) != 0) continue;
      Result<std::vector<ChunkRow>> chunks = store_.Chunks(track.track_id, {});
      if (!chunks) return chunks.error();
      Unattributed::Thread sum{thread.name, pids_[thread.session_id], thread.tid};
      for (const ChunkRow& chunk : *chunks) {
        sum.ranges += chunk.events;
        sum.seconds += Seconds(chunk.busy_ns);
      }
      all += sum.seconds;
      // Links' own threads carry messages for pools: they are workers of none. What takes no time,
      // such as a device's memory being taken, is no worker's either.
      if (thread.pool.empty() && sum.seconds > 0 && thread.name.rfind("link/", 0) != 0) {
        found_.threads.push_back(sum);
      }
    }
    for (Unattributed::Thread& thread : found_.threads) {
      thread.share = all > 0 ? thread.seconds / all : 0;
      found_.threads_share += thread.share;
    }
    std::sort(found_.threads.begin(), found_.threads.end(),
              [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    return {};
  }

  // Calls take(batch) for the track's newest chunks.
  template <typename Take>
  Status VisitNewest(const TrackRow& track, int64_t budget, const Take& take) {
    Result<std::vector<ChunkRow>> chunks = store_.Chunks(track.track_id, {});
    if (!chunks) return chunks.error();
    for (size_t i = chunks->size(); i-- > 0 && budget > 0;) {
      const ChunkRow& chunk = (*chunks)[i];
      budget -= chunk.events;
      Result<EventBatch> batch = store_.ReadChunk(track.track_id, chunk.chunk_index);
      if (!batch) return batch.error();
      take(chunk, *batch);
    }
    return {};
  }

  Status TakeRanges(const std::vector<TrackRow>& tracks) {
    Result<uint32_t> annotated = store_.FindString(kPoolscopeDomain);
    if (!annotated) return annotated.error();
    Result<uint32_t> origin = store_.FindString(kMappedSchema);
    if (!origin) return origin.error();
    const int64_t budget =
        std::max(kLeastPerTrack, kEventBudget / std::max<int64_t>(1, std::ssize(tracks)));
    std::set<Kind> mapped;
    struct Sum {
      int64_t count = 0, ns = 0;
    };
    std::map<Kind, Sum> sums;
    int64_t looked_ns = 0;
    for (const TrackRow& track : tracks) {
      const ThreadRow& thread = *threads_[track.thread_id];
      const bool made = (thread.tid & kMappedTid) != 0;
      const bool lane = thread.tid >= int64_t{0x8000'0000};  // its kernels mean something
      if (!made && (thread.pool.empty() || lane)) continue;
      const auto take = [&](const ChunkRow& chunk, const EventBatch& batch) {
        if (!made) looked_ns += chunk.last_ns - chunk.first_ns;
        for (const Event& event : batch.events) {
          if (made) {
            const auto from = batch.Payload(event, *origin);
            if (from.size() == 2) {
              mapped.insert({static_cast<uint32_t>(from[0]), static_cast<uint32_t>(from[1])});
            }
          } else if (event.domain != *annotated || *annotated == 0) {
            Sum& sum = sums[{event.domain, event.name}];
            ++sum.count;
            sum.ns += event.duration_ns;
          }
        }
      };
      if (Status status = VisitNewest(track, budget, take); !status) return status;
    }
    for (const auto& [kind, sum] : sums) {
      if (mapped.count(kind) != 0) continue;
      Result<std::string> domain = store_.String(kind.first);
      if (!domain) return domain.error();
      Result<std::string> name = store_.String(kind.second);
      if (!name) return name.error();
      found_.ranges.push_back({*domain, *name, sum.count, Seconds(sum.ns),
                               looked_ns > 0 ? Seconds(sum.ns) / Seconds(looked_ns) : 0});
    }
    std::sort(found_.ranges.begin(), found_.ranges.end(),
              [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    return {};
  }

  const Store& store_;
  const RunData& run_;
  std::map<std::string, int64_t> pids_;          // by session
  std::map<int64_t, const ThreadRow*> threads_;  // by id
  Unattributed found_;
};

}  // namespace

Result<Unattributed> FindUnattributed(const Store& store, const RunData& run) {
  return Finder(store, run).Find();
}

}  // namespace poolscope
