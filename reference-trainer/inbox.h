#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "reference-trainer/wire_block.h"

namespace poolscope::trainer {

// The receiving end of streams: puts blocks together and hands out each message once; `in_order`
// also in the order of their numbers, else as they are complete (best effort: what is missing is
// not waited for). State only, called from one thread.
class Inbox {
 public:
  explicit Inbox(bool in_order) : in_order_(in_order) {}

  // An intact block of data. False: a duplicate, or of a message too old to be of use.
  bool Take(const BlockHeader& block, std::span<const uint8_t> contents);

  struct Message {
    uint64_t number = 0;
    std::vector<uint8_t> contents;
  };
  // The next message of a stream that can be handed out.
  std::optional<Message> Next(uint32_t source, uint32_t destination);

 private:
  // Best effort: a message this many behind the newest one is given up.
  static constexpr uint64_t kWindow = 64;

  struct Partial {
    std::vector<uint8_t> contents;
    std::vector<bool> here;  // by part
    size_t missing = 0;
    bool handed_out = false;  // best effort: remembered, so that a duplicate is known
  };
  struct Stream {
    uint64_t first = 0;  // everything before has been handed out or given up
    std::map<uint64_t, Partial> partials;
  };

  const bool in_order_;
  std::map<std::pair<uint32_t, uint32_t>, Stream> streams_;  // by source, destination
};

}  // namespace poolscope::trainer
