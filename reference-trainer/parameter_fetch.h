#pragma once

#include <cstdint>
#include <vector>

#include "reference-trainer/fetch.h"
#include "reference-trainer/staged_pass.h"
#include "reference-trainer/worker.h"

namespace poolscope::trainer {

// The half of a compute worker that gets weights, on its thread. It holds blocks that a stage needs
// now, blocks of the next stages (`--prefetch-depth`), asked for ahead, and beside these at most
// `--cache-blocks` others: of those the coldest go first, outdated ones before all.
//
// A micro-batch of version v uses blocks of version v or later. Synchronous weights do not change
// under it; asynchronous ones may, so that a layer's backward may see a later version than its
// forward, and the micro-batch is as old as its oldest block.
class ParameterFetch : public WeightSource {
 public:
  // `replica` is null where nothing is computed. It starts without any weights.
  ParameterFetch(Job& job, Worker& worker, size_t index, Signal& signal, Replica* replica);
  ~ParameterFetch() override;

  void Begin(const MicroBatch& batch) override;
  void Need(std::span<const Groups> ahead) override;
  void End() override;

  // Of the blocks that the last micro-batch used, the oldest version.
  uint64_t oldest_version() const { return oldest_; }

  // Asks for the first group in at least `version`, unless it is here or has been asked for; ends
  // `wait` before. When to call again, if nothing comes.
  int64_t AskForVersion(uint64_t version, OpenWait& wait);

  // Installs what has arrived; ends `wait` where something has.
  void TakeArrived(OpenWait& wait);

 private:
  struct Entry {
    bool resident = false;
    bool asked = false;
    bool wanted = false;   // by this stage or one of the next
    uint64_t version = 0;  // resident: its version
    // Asked: at least for what version, whom, how often again, and when the next time.
    uint64_t asked_version = 0;
    size_t holder = 0;
    uint64_t repeats = 0;
    int64_t repeat_ns = INT64_MAX;
  };

  bool Usable(const Entry& entry) const { return entry.resident && entry.version >= version_; }
  bool Here(const Groups& groups);
  // Asks for blocks that are neither usable nor asked for in this version, or not of late. When to
  // ask again.
  int64_t AskFor(const Groups& groups, OpenWait& wait);
  void Ask(size_t block);
  // Best effort: fails the run after --retransmit-limit repeats. Throws Abandoned.
  void GiveUpWhereLost(Entry& entry);
  void Evict();
  void SetResident(size_t block, bool resident);
  template <typename F>
  void ForBlocks(const Groups& groups, const F& call);

  Job& job_;
  Worker& worker_;
  const size_t index_;
  Signal& signal_;
  Replica* const replica_;
  const WeightBlocks& blocks_;
  const uint64_t resident_counter_;
  std::vector<Entry> entries_;  // by block
  Hotness hotness_;             // of blocks
  MicroBatch batch_;
  uint64_t version_ = 0;  // that blocks must at least have
  uint64_t oldest_ = 0;
  size_t resident_ = 0;
  // Of this micro-batch.
  std::vector<uint64_t> uses_;  // by group
  uint64_t hits_ = 0, misses_ = 0, asked_again_ = 0, most_resident_ = 0;
};

}  // namespace poolscope::trainer
