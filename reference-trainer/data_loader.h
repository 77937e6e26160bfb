#pragma once

#include <poolscope/annotate.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "reference-trainer/data.h"
#include "reference-trainer/options_input.h"
#include "reference-trainer/signal.h"

namespace poolscope::trainer {

// Prepares micro-batches for the compute workers of this process, in the order of the data.
// Threads keep up to `prefetch` ready that nobody has asked for yet; one that is asked for is
// prepared first, however many are ready. Without threads a worker prepares its own when it needs
// it, or what is left to do of it if somebody has begun by PrepareSlice. What is learned does not
// depend on any of this. Any thread may call.
class DataLoader {
 public:
  using Read = std::function<std::shared_ptr<const Batch>(uint64_t index)>;

  // `read` prepares a micro-batch beside the delay; called by any thread, several at once.
  DataLoader(const InputOptions& options, Read read);
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  // Micro-batch `index`; waits for it as input. `check` is called before each wait and may throw;
  // `signal` is the caller's, by which it is woken. `waited` is set where it was not ready.
  std::shared_ptr<const Batch> Get(uint64_t index, Signal& signal,
                                   const std::function<void()>& check, bool& waited);

  // Nobody is in Get, and `index` is what is asked for next: what was prepared is thrown away.
  void GoTo(uint64_t index);

  // Without threads: prepares a part of one of the next micro-batches that lasts at most `seconds`,
  // within `run`, which gets its duration and what to do in it. False: `prefetch` are ready.
  using RunSlice = std::function<void(double seconds, const std::function<void()>& math)>;
  bool PrepareSlice(double seconds, const RunSlice& run);

 private:
  struct Entry {
    bool ready = false;       // else being prepared, or in line
    double left_seconds = 0;  // by slices: until it is ready
    bool held = false;        // in a slice
    std::shared_ptr<const Batch> batch;
    Signal* caller = nullptr;  // who waits for it
  };

  std::shared_ptr<const Batch> Prepare(uint64_t index, double seconds) const;
  // Without threads: takes it out as far as it is prepared.
  Entry Take(uint64_t index);
  void Work(size_t thread);
  bool PickNext(uint64_t& index);  // mutex_ is held
  void CountReady(int change);     // mutex_ is held

  const InputOptions options_;
  const Read read_;
  const nvtxStringHandle_t annotation_;
  const uint64_t ready_counter_;

  std::mutex mutex_;
  std::condition_variable work_;
  // Guarded by mutex_:
  bool stopping_ = false;
  uint64_t next_ = 0;                  // the first index that nobody has prepared or asked for
  std::map<uint64_t, Entry> entries_;  // asked for or prefetched, until handed out
  std::set<uint64_t> asked_;           // of them, in line
  std::set<uint64_t> ahead_;           // asked for before their turn, at or after next_
  size_t ready_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace poolscope::trainer
