#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "advisor/model.h"

// Asynchronous training inside the simulation: which micro-batch may start, and which gradient goes
// into which step. Credits = (lag bound + 1) x micro-batches - in flight; gradients are admitted in
// one order for all shards, that of the first arrival at any; the m-th belongs to step m / M.
namespace poolscope {

class AdmissionState {
 public:
  explicit AdmissionState(const Model& model) : model_(model) {}

  enum class Start { kStarted, kNoCredit, kNeedsWeights };
  // A worker that holds weights of `version` begins a micro-batch; `attempt` is its number.
  Start TryStart(int version, int& attempt);

  enum class Verdict { kUndecided, kAccepted, kDiscarded };
  struct Decision {
    Verdict verdict = Verdict::kUndecided;
    int step = 0;
  };
  // The gradient of the attempt is at a shard. Asked again until it is decided.
  Decision Ask(int attempt);

  // All shards have made one more update.
  void Updated() { applied_ += model_.micro_batches; }

  int64_t started() const { return started_; }
  int64_t discarded() const { return discarded_; }

 private:
  struct Attempt {
    int version = 0;
    bool arrived = false;
    Decision decision;
  };

  void Decide(Attempt& attempt);
  void Close(const Attempt& attempt);
  void DecideDeferred();
  // Whether all undecided others keep a place within their bound if this one takes the next.
  bool OthersKeepTheirBound(const Attempt& attempt) const;

  const Model& model_;
  int64_t started_ = 0, admitted_ = 0, discarded_ = 0, applied_ = 0;
  std::vector<Attempt> attempts_;
  std::vector<int> open_;      // attempts that are not decided
  std::vector<int> deferred_;  // attempts, by arrival
  std::deque<int> again_;      // versions of discarded attempts to be made again
};

}  // namespace poolscope
