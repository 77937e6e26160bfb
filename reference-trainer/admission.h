#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "reference-trainer/pace.h"
#include "reference-trainer/training_state.h"

namespace poolscope::trainer {

// What to do with a gradient whose version lag is over the bound.
enum class Stale { kWait, kDrop, kRecompute, kApply };

// The books of asynchronous training: which micro-batch is started when, and which gradient goes
// into which step. One for all workers; any thread may call; nothing here waits.
//
//   credits = micro-batches of the steps from the version to version + lag bound − in flight
//   in flight: started, and neither discarded, void nor part of an update that all shards have made
//
// Gradients are admitted in one order for the whole update pool: that of the first arrival at any
// shard. They fill one step after the other. Under kWait the bound holds whatever overtakes what:
// an arrival that would leave an older micro-batch no place within its bound is deferred until the
// older one has been admitted. In the warm-up, whose bound is 0, every policy is kWait.
//
// With `handovers`, a gradient counts from when its worker has handed it to all shards. Before
// that, what a worker that goes has started can be made void; others then do it.
class Admission {
 public:
  struct Rules {
    uint64_t steps = 0;
    Stale stale = Stale::kWait;
    uint64_t shards = 1;  // update workers
    bool handovers = false;
  };

  enum class Start {
    kStarted,
    kNoCredit,
    kNeedsWeights,  // newer weights than those held
    kNothingLeft,   // every micro-batch of the run is started; discards may bring new ones
    kGone           // the worker has left, or was taken for dead
  };
  // What a compute worker begins: micro-batches micro_batch + i × stride, i < micro_batches, of
  // which the data is data + i × stride. Several only in synchronous training.
  struct Attempt {
    Start start = Start::kNothingLeft;
    uint64_t number = 0;   // of the attempt, from 0
    uint64_t version = 0;  // computed with
    uint64_t step = 0;     // that it is for, if nothing overtakes it
    uint64_t micro_batch = 0;
    uint64_t stride = 1;
    uint64_t micro_batches = 1;
    uint64_t data = 0;       // index in the data; repeated where recomputed
    uint64_t sequences = 1;  // of a micro-batch
    uint64_t shares = 1;     // synchronous: of the step, among workers 0 .. shares − 1
  };

  enum class Verdict { kAccepted, kDiscarded, kDeferred };
  struct Decision {
    Verdict verdict = Verdict::kDeferred;
    uint64_t step = 0;  // kAccepted, kDiscarded: the version about to be modified
    uint64_t lag = 0;   // step − version computed with
  };

  // A micro-batch whose result is lost.
  struct Lost {
    uint64_t step = 0, micro_batch = 0, version = 0;
  };

  // `pace` outlives it.
  Admission(Rules rules, Pace& pace) : rules_(rules), pace_(pace), steps_(rules.steps) {}

  // Compute worker `worker`, which holds weights of `version`, wants to begin a micro-batch. The
  // attempt's step and micro-batch are unique, also where some are discarded or void.
  Attempt TryStart(uint64_t worker, uint64_t version);

  // All shards have got it, or will without the worker. False: it is void.
  bool HandedOver(uint64_t number);

  // The gradient of attempt `number` has arrived at a shard. Each shard asks until it is decided,
  // and not again: the last shard's answer closes the books on it.
  Decision Ask(uint64_t number);

  // The worker has gone: what it has started and not handed over is void.
  std::vector<Lost> Void(uint64_t worker);

  // All shards have made the update of one more step.
  void Updated();

  // The micro-batches of the data that are part of the updates up to `version`, and not of later
  // ones; those that were dropped count as done. Asked for the newest version that any shard has
  // made.
  DataPosition PositionAt(uint64_t version) const;

  // The run begins, or begins again, after `step` updates: nothing is in flight.
  void Rewind(uint64_t step, const DataPosition& position);

  // The run ends after the step that is being filled.
  void StopAfterCurrentStep();

  uint64_t steps() const;
  int64_t credits() const;
  uint64_t discarded() const;

 private:
  struct InFlight {
    uint64_t worker = 0;
    uint64_t data = 0;
    uint64_t version = 0;
    uint64_t step = 0, micro_batch = 0;  // of the attempt
    bool handed_over = false;
    bool arrived = false;
    uint64_t answers = 0;  // shards that know the decision
    Decision decision;
  };

  static constexpr uint64_t kOpen = UINT64_MAX;

  int64_t Credits() const;
  uint64_t LagBound(uint64_t version) const { return pace_.Plan(version).lag_bound; }
  // The step of the n-th place, from 0, that has not been given away.
  uint64_t StepOfPlace(uint64_t n) const;
  bool Waits(uint64_t version) const;
  void Decide(InFlight& attempt);
  bool OthersKeepTheirBound(const InFlight& attempt) const;
  void AdmitDeferred();

  const Rules rules_;
  Pace& pace_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  uint64_t steps_;
  uint64_t started_ = 0;
  uint64_t next_data_ = 0;
  uint64_t step_ = 0;    // that is being filled
  uint64_t filled_ = 0;  // micro-batches admitted to it
  uint64_t discarded_ = 0;
  uint64_t void_ = 0;
  uint64_t version_ = 0;                    // updates that all shards have made
  uint64_t applied_ = 0;                    // micro-batches in them
  uint64_t named_step_ = 0, named_ = 0;     // of the newest attempt: its step, attempts of that
  uint64_t undecided_ = 0;                  // started, not yet admitted or discarded
  std::map<uint64_t, InFlight> in_flight_;  // by number, until every shard knows the decision
  std::deque<uint64_t> deferred_;           // numbers, by arrival
  struct Again {
    uint64_t data;
    std::optional<uint64_t> version;  // of the attempt that was discarded; none: it was void
  };
  std::deque<Again> again_;
  // What has become of the micro-batches of the data from settled_from_ on; all before are part of
  // updates that all shards have made.
  uint64_t settled_from_ = 0;
  std::deque<uint64_t> settled_;  // the step that took it, kOpen, or 0: dropped
};

}  // namespace poolscope::trainer
