#include "reference-trainer/crossing.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace poolscope::trainer {
namespace {

// Bytes of the wire that stand for the parts before `part`.
uint64_t WireShare(uint64_t wire_bytes, uint64_t part, uint64_t parts) {
  return static_cast<uint64_t>(static_cast<double>(wire_bytes) * static_cast<double>(part) /
                               static_cast<double>(parts));
}

uint64_t WireBytesOf(const MessageFields& message, const BlockHeader& block) {
  return WireShare(message.wire_bytes, block.part + uint64_t{1}, block.parts) -
         WireShare(message.wire_bytes, block.part, block.parts);
}

}  // namespace

Crossing::Crossing(const CrossingRules& rules, Ends& ends)
    : rules_(rules),
      ends_(ends),
      outbox_(rules.patience),
      inbox_(rules.reliable),
      free_ns_(rules.lanes, 0) {}

Crossing::Key Crossing::KeyOf(const BlockHeader& block) {
  return {block.source, block.destination, block.message};
}

int64_t Crossing::LaneNs(uint64_t bytes) const {
  if (rules_.bytes_per_second <= 0) return 0;
  return std::llround(static_cast<double>(bytes) * 1e9 / rules_.bytes_per_second);
}

int64_t Crossing::NextStart() const {
  int64_t ready = INT64_MAX;
  if (!again_.empty()) {
    ready = again_.front().first;
  } else if (!waiting_.empty()) {
    ready = waiting_.front()->handed_over_ns;
  } else {
    return INT64_MAX;
  }
  return std::max(ready, *std::min_element(free_ns_.begin(), free_ns_.end()));
}

int64_t Crossing::next_ns() {
  const int64_t landing = landings_.empty() ? INT64_MAX : landings_.begin()->first;
  return std::min({landing, NextStart(), outbox_.due_ns()});
}

void Crossing::Advance(int64_t now_ns) {
  for (;;) {
    const int64_t next = next_ns();
    if (next > now_ns) return;
    if (!landings_.empty() && landings_.begin()->first == next) {
      const auto landing = landings_.extract(landings_.begin());
      Land(next, landing.mapped());
    } else if (NextStart() == next) {
      StartNext(next);
    } else if (const auto block = outbox_.TakeDue(next)) {
      if (outbox_.Exhausted(*block)) {
        ends_.Failed(flying_.at(KeyOf(*block)).fields, block->attempt + 1);
      } else {
        again_.emplace_back(next, *block);
      }
    }
  }
}

void Crossing::StartNext(int64_t start_ns) {
  int64_t& lane_free_ns = *std::min_element(free_ns_.begin(), free_ns_.end());
  if (again_.empty()) {
    StartWaiting(start_ns, lane_free_ns);
  } else {
    StartAgain(start_ns, lane_free_ns);
  }
}

void Crossing::StartWaiting(int64_t start_ns, int64_t& lane_free_ns) {
  MessagePtr message = std::move(waiting_.front());
  waiting_.pop_front();
  ends_.OnWire(*message);
  const MessageFields fields = *message;
  const auto source = static_cast<uint32_t>(fields.source);
  const auto destination = static_cast<uint32_t>(fields.destination);
  std::vector<uint8_t> contents = Pack(*message);
  message->block.bytes = {};  // what arrives is what came over the wire
  if (!rules_.reliable && !message->probe()) {
    newest_[{source, destination}] = {contents, message->codec_name,
                                      start_ns + LaneNs(fields.wire_bytes) + rules_.latency_ns};
  }
  uint64_t parts = 1;
  if (rules_.block_bytes > 0 && fields.wire_bytes > 0) {
    parts = std::min<uint64_t>(kMaxParts, (fields.wire_bytes - 1) / rules_.block_bytes + 1);
  }
  BlockHeader block = outbox_.Add(source, destination, fields.version, std::move(contents),
                                  static_cast<uint32_t>(parts));
  const Flight flight = flying_.try_emplace(KeyOf(block), Flying{std::move(message), fields}).first;
  ++flight->second.under_way;  // what sends it
  for (; block.part < parts; ++block.part) {
    lane_free_ns = start_ns + LaneNs(WireShare(fields.wire_bytes, block.part + 1, parts));
    std::vector<uint8_t> wire = outbox_.Try(block, lane_free_ns);
    Launch(block, std::move(wire), lane_free_ns + rules_.latency_ns);
  }
  if (!rules_.reliable) {
    outbox_.Forget(block);
    flight->second.settled = true;
  }
  --flight->second.under_way;
  Settle(flight);
}

void Crossing::StartAgain(int64_t start_ns, int64_t& lane_free_ns) {
  BlockHeader block = again_.front().second;
  again_.pop_front();
  const auto flight = flying_.find(KeyOf(block));
  if (flight == flying_.end()) return;  // acknowledged in the meantime
  const int64_t end_ns = start_ns + LaneNs(WireBytesOf(flight->second.fields, block));
  std::vector<uint8_t> wire = outbox_.Try(block, end_ns);
  if (wire.empty()) return;  // likewise
  lane_free_ns = end_ns;
  ++counts_.retries;
  counts_.retried_bytes += WireBytesOf(flight->second.fields, block);
  Meet(Trouble::kRetry, block);
  Launch(block, std::move(wire), end_ns + rules_.latency_ns);
}

void Crossing::Launch(const BlockHeader& block, std::vector<uint8_t> wire, int64_t at_ns,
                      bool copy) {
  const bool asks = block.kind == BlockKind::kRequest;
  const Flight flight = asks ? flying_.end() : flying_.find(KeyOf(block));
  const bool spared = !asks && flight->second.fields.probe();
  const Fate fate = spared ? Fate{} : FateOf(rules_.faults, rules_.seed, block, copy);
  if (fate.repeated && !copy) {
    ++counts_.repeats;
    Launch(block, wire, at_ns + hold_ns() / 2, true);
  }
  if (fate.lost) {
    ++counts_.losses;
    return;
  }
  if (fate.damage != 0) {
    ++counts_.corruptions;
    Damage(wire, fate.damage);
  }
  if (fate.held) at_ns += hold_ns();
  if (!asks) ++flight->second.under_way;
  landings_.emplace(at_ns + fate.delay_ns, Landing{block, std::move(wire)});
}

void Crossing::Land(int64_t at_ns, const Landing& landing) {
  BlockHeader block;
  std::span<const uint8_t> contents;
  if (!Unseal(landing.wire, block, contents)) {
    ++counts_.corrupt;
    Meet(Trouble::kCorrupt, landing.block);
  } else if (block.kind == BlockKind::kData) {
    TakeData(block, contents, at_ns);
  } else if (block.kind == BlockKind::kRequest) {
    Answer(block, at_ns);
  } else if (outbox_.Acknowledge(block)) {
    flying_.at(KeyOf(block)).settled = true;
  }
  if (landing.block.kind == BlockKind::kRequest) return;
  const auto flight = flying_.find(KeyOf(landing.block));
  --flight->second.under_way;
  Settle(flight);
}

void Crossing::TakeData(const BlockHeader& block, std::span<const uint8_t> contents,
                        int64_t at_ns) {
  if (!inbox_.Take(block, contents)) {
    ++counts_.duplicates;
    Meet(Trouble::kDuplicate, block);
  }
  if (rules_.reliable) {
    BlockHeader answer = block;
    answer.kind = BlockKind::kAcknowledgement;
    Launch(answer, Seal(answer, {}), at_ns + rules_.latency_ns);
  }
  while (auto complete = inbox_.Next(block.source, block.destination)) {
    const auto flight = flying_.find({block.source, block.destination, complete->number});
    if (!Unpack(complete->contents, *flight->second.message)) std::abort();  // a CRC that lies
    ends_.Arrived(std::move(flight->second.message));
    Settle(flight);
  }
}

void Crossing::Settle(Flight flight) {
  Flying& flying = flight->second;
  if (flying.under_way > 0 || !flying.settled) return;
  if (flying.message) {
    if (rules_.reliable) return;  // it is here, but not its turn
    ++counts_.lost;
    ends_.Met(Trouble::kLost, flying.fields, flying.fields.wire_bytes);
    ends_.Lost(std::move(flying.message));
  }
  flying_.erase(flight);
}

void Crossing::Meet(Trouble trouble, const BlockHeader& block) {
  const auto flight = flying_.find(KeyOf(block));
  if (block.kind == BlockKind::kRequest || flight == flying_.end()) return;
  const MessageFields& fields = flight->second.fields;
  ends_.Met(trouble, fields, WireBytesOf(fields, block));
}

void Crossing::Ask(uint32_t source, uint32_t destination, uint64_t version, int64_t now_ns) {
  BlockHeader request;
  request.kind = BlockKind::kRequest;
  request.source = source;
  request.destination = destination;
  request.message = requests_++;
  request.version = version;
  Launch(request, Seal(request, {}), now_ns + rules_.latency_ns);
}

void Crossing::Answer(const BlockHeader& request, int64_t at_ns) {
  const auto newest = newest_.find({request.source, request.destination});
  if (newest == newest_.end() || newest->second.here_ns > at_ns - rules_.latency_ns) return;
  auto message = std::make_unique<Message>();
  if (!Unpack(newest->second.contents, *message) || message->version < request.version) return;
  message->codec_name = newest->second.codec_name;
  ends_.AskedAgain(std::move(message));
}

}  // namespace poolscope::trainer
