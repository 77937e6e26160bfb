#include "reference-trainer/inbox.h"

#include <algorithm>

namespace poolscope::trainer {

bool Inbox::Take(const BlockHeader& block, std::span<const uint8_t> contents) {
  Stream& stream = streams_[{block.source, block.destination}];
  if (block.message < stream.first) return false;
  Partial& partial = stream.partials[block.message];
  if (partial.here.empty()) {
    partial.contents.resize(block.size);
    partial.here.resize(block.parts);
    partial.missing = block.parts;
  }
  // Blocks of one message that disagree about it are not of one message.
  if (partial.here.size() != block.parts || partial.here[block.part] ||
      partial.contents.size() != block.size) {
    return false;
  }
  partial.here[block.part] = true;
  --partial.missing;
  std::copy(contents.begin(), contents.end(),
            partial.contents.begin() + static_cast<std::ptrdiff_t>(block.begin()));
  return true;
}

std::optional<Inbox::Message> Inbox::Next(uint32_t source, uint32_t destination) {
  Stream& stream = streams_[{source, destination}];
  for (auto& [number, partial] : stream.partials) {
    if (in_order_ && number != stream.first) break;
    if (partial.missing > 0 || partial.handed_out) continue;
    Message message{number, std::move(partial.contents)};
    partial.handed_out = true;
    if (in_order_) {
      ++stream.first;
    } else {
      const uint64_t newest = stream.partials.rbegin()->first;
      stream.first = std::max(stream.first, newest - std::min(newest, kWindow));
    }
    stream.partials.erase(stream.partials.begin(), stream.partials.lower_bound(stream.first));
    return message;
  }
  return std::nullopt;
}

}  // namespace poolscope::trainer
