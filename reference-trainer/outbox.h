#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "reference-trainer/retry.h"
#include "reference-trainer/wire_block.h"

namespace poolscope::trainer {

// The sending end of reliable streams: cuts messages into blocks, numbers them, keeps each until it
// is acknowledged, and says which are to be sent again and when. State only: whoever carries the
// blocks calls it, from one thread, with times of its own clock.
class Outbox {
 public:
  explicit Outbox(Patience patience) : patience_(patience) {}

  // The next message from `source` to `destination`: returns its first block, with its number. All
  // of its `parts` (1 to kMaxParts) are to be tried.
  BlockHeader Add(uint32_t source, uint32_t destination, uint64_t version,
                  std::vector<uint8_t> contents, uint32_t parts);

  // A try of block (stream, message, part) that will have left by `sent_ns`: its bytes for the
  // wire; `block` gets its attempt. Empty: it has been acknowledged, there is nothing to send.
  std::vector<uint8_t> Try(BlockHeader& block, int64_t sent_ns);

  // True: with this one, every block of the message is acknowledged, and the message is forgotten.
  bool Acknowledge(const BlockHeader& block);

  // No more tries of this message.
  void Forget(const BlockHeader& block) {
    kept_.erase({block.source, block.destination, block.message});
  }

  // When TakeDue() has something; INT64_MAX: never, as things are.
  int64_t due_ns();
  // A block whose answer is overdue at `now_ns`. It is due again only after another Try().
  std::optional<BlockHeader> TakeDue(int64_t now_ns);
  bool Exhausted(const BlockHeader& block) const { return block.attempt + 1 >= patience_.limit; }

 private:
  struct Part {
    Retry retry;
    bool acknowledged = false;
  };
  struct Kept {
    BlockHeader first;
    std::vector<uint8_t> contents;
    std::vector<Part> parts;
    size_t open = 0;  // not acknowledged
  };
  using Stream = std::pair<uint32_t, uint32_t>;  // source, destination
  struct Due {
    int64_t at_ns;
    BlockHeader block;  // as of the try whose answer is waited for
    bool operator>(const Due& other) const { return at_ns > other.at_ns; }
  };

  Kept* Find(const BlockHeader& block);
  Part* FindOpen(const BlockHeader& block);

  const Patience patience_;
  std::map<Stream, uint64_t> next_;
  std::map<std::tuple<uint32_t, uint32_t, uint64_t>, Kept> kept_;  // by stream and message
  // One entry per try; those overtaken by an acknowledgement are dropped when they are on top.
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
};

}  // namespace poolscope::trainer
