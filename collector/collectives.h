#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "collector/activity.h"
#include "collector/nccl_operation.h"
#include "collector/run_model.h"
#include "store/rows.h"

namespace poolscope {

// One run's NCCL operations, matched across ranks: collectives of a communicator by function and
// sequence, sends with receives by their order. From the last rank's start to the last one's end
// the operation is on the wire; who came before waited for the last (both inferred).
//
// Where all ranks that are known of the communicator work for one pool, each waits for its peers;
// where they work for two, for the link between these, which gets the bytes as a transfer unless
// the job marks its transfers itself.
class Collectives {
 public:
  explicit Collectives(RunModel& model, int64_t window_ns = 1'000'000'000)
      : model_(model), window_ns_(window_ns) {}

  void Add(const NcclOperation& operation);  // that has ended
  // Whose rank a worker is, of an operation in progress.
  void Learn(const NcclOperation& operation);
  // What that means of the worker: it waits, for whom the ranks that are known say.
  Activity Wait(const NcclOperation& operation);
  // What the operations mean that are complete, or ended before `until_ns` and are given up on.
  std::vector<Activity> Take(int64_t until_ns);
  // Sums that changed since the last call; what ended before `closed_ns` counts in the window
  // after.
  std::vector<CollectiveWindowRow> Rows(int64_t closed_ns);

  // Sends and receives are matched by their order, so a successor must know where to go on: those
  // of this rank to that one that ended up to `sent_ns` and `received_ns` count in windows that are
  // closed, and all others that are known ended later.
  using PairKey = std::tuple<uint64_t, int64_t, int64_t>;  // communicator, sender, receiver
  struct Mark {
    int64_t sent_ns = INT64_MIN, received_ns = INT64_MIN;  // INT64_MIN: none
  };
  std::map<PairKey, Mark> Marks(int64_t closed_ns);  // that changed since the last call

  // For a successor, before anything else: adds what is stored, but for sends and receives up to
  // the mark, and once that is done forgets what counts in windows before `closed_ns`.
  void AddStored(const NcclOperation& operation, const Mark& mark);
  void Settle(int64_t closed_ns);
  void SawSequence(uint64_t sequence);                    // of a transfer that a predecessor made
  static PairKey PairOf(const NcclOperation& operation);  // of a send or receive

 private:
  using Group = std::vector<NcclOperation>;
  using CollectiveKey = std::tuple<uint64_t, NcclFunction, uint64_t>;  // communicator, sequence
  using Done = Mark;  // ends of a pair that was matched, or of one operation alone
  struct Pair {
    std::deque<NcclOperation> sends, receives;
    std::deque<Done> done;  // in order, behind the mark
  };
  struct Sum {
    int64_t end_ns;
    CollectiveWindowRow row;  // of one operation
  };
  using RowKey = std::tuple<int64_t, std::string, std::string>;  // start, communicator, function

  void TakePairs(Pair& pair, int64_t until_ns);
  void Finish(const Group& group);
  std::set<std::string> PoolsOf(const Group& group) const;
  int LinkOf(const Group& group, const std::set<std::string>& pools);
  const std::string& PoolOf(int worker) const {
    return model_.workers()[static_cast<size_t>(worker)].pool;
  }

  RunModel& model_;
  const int64_t window_ns_;
  std::map<CollectiveKey, Group> groups_;
  std::map<PairKey, Pair> pairs_;
  std::map<std::pair<uint64_t, int64_t>, int> members_;  // by communicator and rank: worker
  std::vector<Activity> out_;
  std::vector<Sum> finished_;
  std::map<RowKey, CollectiveWindowRow> sums_;  // of windows that are not closed
  int64_t counted_ns_ = INT64_MIN;              // what ended before counts already
  uint64_t next_sequence_ = uint64_t{1} << 62;  // of transfers: beyond those that jobs give
};

}  // namespace poolscope
