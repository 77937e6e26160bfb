#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

namespace poolscope::trainer {

// What to do with a gradient whose version lag is over the bound.
enum class Stale { kWait, kDrop, kRecompute, kApply };

// The books of asynchronous training: which micro-batch is started when, and which gradient goes
// into which step. One for all workers; any thread may call; nothing here waits.
//
//   credits = (lag bound + 1) × micro-batches of a step − in flight
//   in flight: started, and neither discarded nor part of an update that all shards have made
//
// Gradients are admitted in one order for the whole update pool: that of the first arrival at any
// shard. The m-th admitted belongs to step m ÷ micro-batches. Under kWait the bound holds whatever
// overtakes what: an arrival that would leave an older micro-batch no place within its bound is
// deferred until the older one has been admitted.
class Admission {
 public:
  struct Rules {
    uint64_t steps = 0;
    uint64_t micro_batches = 1;  // of a step
    uint64_t lag_bound = 1;
    Stale stale = Stale::kWait;
    uint64_t shards = 1;  // update workers
  };

  enum class Start {
    kStarted,
    kNoCredit,
    kNeedsWeights,  // newer weights than those held
    kNothingLeft    // every micro-batch of the run is started; discards may bring new ones
  };
  struct Attempt {
    Start start = Start::kNothingLeft;
    uint64_t number = 0;   // of the attempt, from 0
    uint64_t data = 0;     // index of the micro-batch in the data; repeated where recomputed
    uint64_t version = 0;  // computed with
  };

  enum class Verdict { kAccepted, kDiscarded, kDeferred };
  struct Decision {
    Verdict verdict = Verdict::kDeferred;
    uint64_t step = 0;  // kAccepted, kDiscarded: the version about to be modified
    uint64_t lag = 0;   // step − version computed with
  };

  explicit Admission(Rules rules) : rules_(rules), steps_(rules.steps) {}

  // A compute worker that holds weights of `version` wants to begin a micro-batch.
  Attempt TryStart(uint64_t version);

  // The gradient of attempt `number` has arrived at a shard. Each shard asks until it is decided,
  // and not again: the last shard's answer closes the books on it.
  Decision Ask(uint64_t number);

  // All shards have made the update of one more step.
  void Updated();

  // The run ends after the step that is being filled.
  void StopAfterCurrentStep();

  uint64_t steps() const;
  int64_t credits() const;
  uint64_t discarded() const;

 private:
  struct InFlight {
    uint64_t data = 0;
    uint64_t version = 0;
    bool arrived = false;
    uint64_t answers = 0;  // shards that know the decision
    Decision decision;
  };

  int64_t Credits() const;
  void Decide(InFlight& attempt);
  bool OthersKeepTheirBound(const InFlight& attempt) const;
  void AdmitDeferred();

  const Rules rules_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  uint64_t steps_;
  uint64_t started_ = 0;
  uint64_t next_data_ = 0;
  uint64_t admitted_ = 0;
  uint64_t discarded_ = 0;
  uint64_t applied_ = 0;                    // part of an update that all shards have made
  uint64_t undecided_ = 0;                  // started, not yet admitted or discarded
  std::map<uint64_t, InFlight> in_flight_;  // by number, until every shard knows the decision
  std::deque<uint64_t> deferred_;           // numbers, by arrival
  struct Again {
    uint64_t data;
    uint64_t version;  // of the attempt that was discarded
  };
  std::deque<Again> again_;
};

}  // namespace poolscope::trainer
