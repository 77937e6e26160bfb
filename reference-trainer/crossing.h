#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "reference-trainer/faults.h"
#include "reference-trainer/inbox.h"
#include "reference-trainer/message.h"
#include "reference-trainer/outbox.h"

namespace poolscope::trainer {

// How messages cross a link whose wire is not perfect.
struct CrossingRules {
  double bytes_per_second = 0;  // of each lane; 0: unlimited
  int64_t latency_ns = 0;       // each way
  size_t lanes = 1;
  bool reliable = true;      // false: best effort, what is lost stays lost unless it is asked for
  uint64_t block_bytes = 0;  // of a block, as of the message's wire bytes; 0: one block a message
  Patience patience;
  Faults faults;
  uint64_t seed = 0;
};

// Messages on a wire that loses, damages, repeats, delays and reorders blocks: a sequence of events
// in time, for one thread, which says what time it is. Nothing here waits; a late call makes up for
// it, since events happen in the order of their own times. Acknowledgements and requests cross the
// other way, where they occupy no lane.
class Crossing {
 public:
  enum class Trouble { kRetry, kCorrupt, kDuplicate, kLost };  // as poolscope_fault_kind

  // What becomes of the messages; called from Advance().
  class Ends {
   public:
    virtual ~Ends() = default;
    virtual void OnWire(Message& message) = 0;        // its first byte leaves
    virtual void Arrived(MessagePtr message) = 0;     // reliable: in the order of its stream
    virtual void Lost(MessagePtr message) = 0;        // best effort
    virtual void AskedAgain(MessagePtr message) = 0;  // a copy, to be entered again or dropped
    // A block of `bytes`; kLost: a message of them.
    virtual void Met(Trouble trouble, const MessageFields& message, uint64_t bytes) = 0;
    virtual void Failed(const MessageFields& message, uint32_t tries) = 0;  // reliable
  };

  Crossing(const CrossingRules& rules, Ends& ends);

  // In the order of their handed_over_ns.
  void Enter(MessagePtr message) { waiting_.push_back(std::move(message)); }
  // Best effort: `destination` asks `source` for the newest message of their stream, which is sent
  // if its version is at least this one.
  void Ask(uint32_t source, uint32_t destination, uint64_t version, int64_t now_ns);

  void Advance(int64_t now_ns);
  int64_t next_ns();  // when Advance() has something to do; INT64_MAX: after the next Enter()

  const FaultCounts& counts() const { return counts_; }

 private:
  using Key = std::tuple<uint32_t, uint32_t, uint64_t>;  // source, destination, number in stream
  // A message whose blocks or acknowledgements may still be on the wire.
  struct Flying {
    MessagePtr message;  // null: arrived
    MessageFields fields;
    uint64_t under_way = 0;  // copies of its blocks and acknowledgements
    bool settled = false;    // no more tries: all of it is acknowledged, or best effort
  };
  using Flight = std::map<Key, Flying>::iterator;
  struct Landing {
    BlockHeader block;  // as it was sent
    std::vector<uint8_t> wire;
  };
  struct Newest {
    std::vector<uint8_t> contents;
    nvtxStringHandle_t codec_name;
    int64_t here_ns;  // when it arrives, if nothing happens to it
  };

  static Key KeyOf(const BlockHeader& block);
  int64_t LaneNs(uint64_t bytes) const;
  // How long a block is held that is to be overtaken: not so long that it is sent again.
  int64_t hold_ns() const { return rules_.patience.timeout_ns / 4; }
  int64_t NextStart() const;
  void StartNext(int64_t start_ns);
  void StartWaiting(int64_t start_ns, int64_t& lane_free_ns);
  void StartAgain(int64_t start_ns, int64_t& lane_free_ns);
  // Puts a block on the wire, from which it comes at `at_ns` if nothing happens to it.
  void Launch(const BlockHeader& block, std::vector<uint8_t> wire, int64_t at_ns,
              bool copy = false);
  void Land(int64_t at_ns, const Landing& landing);
  void TakeData(const BlockHeader& block, std::span<const uint8_t> contents, int64_t at_ns);
  void Answer(const BlockHeader& request, int64_t at_ns);
  void Settle(Flight flight);  // forgets it where nothing more can come
  void Meet(Trouble trouble, const BlockHeader& block);

  const CrossingRules rules_;
  Ends& ends_;
  Outbox outbox_;
  Inbox inbox_;
  std::deque<MessagePtr> waiting_;
  std::deque<std::pair<int64_t, BlockHeader>> again_;  // (due, block), before those that wait
  std::vector<int64_t> free_ns_;                       // by lane
  std::map<Key, Flying> flying_;
  std::multimap<int64_t, Landing> landings_;  // by time; those of one time as they were sent
  uint64_t requests_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, Newest> newest_;  // best effort
  FaultCounts counts_;
};

}  // namespace poolscope::trainer
