#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace poolscope::trainer {

// Some compute workers come at the beginning of a step.
struct Arrival {
  uint64_t workers = 1;
  uint64_t step = 0;
};

// A compute worker goes when it has done `progress` (0 to 1) of its part of a step: 0 is at the
// beginning, before it has taken anything of the step.
struct Departure {
  uint64_t worker = 0;
  uint64_t step = 0;
  double progress = 0;
};

enum class Presence { kAway, kPresent, kGone };

// Which compute workers there are. Workers that come get the numbers after those before them, and
// nobody gets the number of one that has gone. Any thread may call; nothing here waits.
class Membership {
 public:
  // Those `leaves` that leave at the beginning of a step are no members of it; the others say so
  // themselves (Drop).
  Membership(uint64_t workers, const std::vector<Arrival>& joins,
             const std::vector<Departure>& leaves);

  // All that ever come.
  uint64_t workers() const { return workers_.size(); }

  // Who computes in `step`, ascending: decided when first asked for, together with all before it.
  // Who joins at it is present from then on.
  std::vector<uint64_t> Members(uint64_t step);
  // The members of the steps from `step` on are decided again, of those there are now; who joins
  // later is to come again.
  void Rewind(uint64_t step);
  // Nobody asks for the members of earlier steps again.
  void Forget(uint64_t before);

  Presence Of(uint64_t worker) const;
  uint64_t present() const;
  uint64_t changes() const;  // how often a presence has changed
  // Whose weights a worker computes with at the earliest: 0, or the step that it joins at.
  uint64_t FirstStep(uint64_t worker) const { return workers_[worker].first_step; }

  // The worker has left, or is taken for dead. False: it was not there any more.
  bool Drop(uint64_t worker);

  // Leases: a worker is alive at `now_ns`; all present ones whose last sign of life is `lease_ns`
  // old. The lease begins with the first sign.
  void Beat(uint64_t worker, int64_t now_ns);
  std::vector<uint64_t> Expired(int64_t now_ns, int64_t lease_ns) const;

 private:
  struct Worker {
    uint64_t first_step = 0;
    uint64_t end_step = UINT64_MAX;  // leaves at the beginning of it
    Presence presence = Presence::kAway;
    int64_t beat_ns = 0;  // 0: none yet
  };

  void Set(Worker& worker, Presence presence);  // mutex_ is held

  mutable std::mutex mutex_;
  std::vector<Worker> workers_;  // first_step is constant, the rest guarded by mutex_
  uint64_t next_step_ = 0;       // guarded by mutex_
  uint64_t changes_ = 0;         // guarded by mutex_
  std::map<uint64_t, std::vector<uint64_t>> members_;  // guarded by mutex_
};

}  // namespace poolscope::trainer
