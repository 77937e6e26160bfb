#include "collector/messages.h"

#include <algorithm>

namespace poolscope {
namespace {

constexpr size_t kMaxMessages = 500'000;

int64_t Overlap(int64_t a0, int64_t a1, int64_t b0, int64_t b1) {
  return std::max<int64_t>(0, std::min(a1, b1) - std::max(a0, b0));
}

}  // namespace

void WaitParts::AddTo(WorkerLinkWindowRow& row) const {
  row.upstream_busy_ns += upstream_busy_ns;
  row.queued_ns += queued_ns;
  row.encode_ns += encode_ns;
  row.wire_ns += wire_ns;
  row.decode_ns += decode_ns;
  row.unattributed_ns += unattributed_ns;
}

WaitParts MessageLife::Split(int64_t begin_ns, int64_t end_ns) const {
  WaitParts parts;
  const Span& queued = stages[static_cast<size_t>(Stage::kQueued)];
  const Span& encode = stages[static_cast<size_t>(Stage::kEncode)];
  const Span& wire = stages[static_cast<size_t>(Stage::kWire)];
  const Span& decode = stages[static_cast<size_t>(Stage::kDecode)];
  int64_t born = INT64_MAX;  // when the producer was done with it
  for (const Span* span : {&queued, &encode, &wire}) {
    if (span->seen()) born = std::min(born, span->begin_ns);
  }
  if (born == INT64_MAX) {
    parts.unattributed_ns = end_ns - begin_ns;
    return parts;
  }
  parts.upstream_busy_ns = Overlap(begin_ns, end_ns, INT64_MIN / 2, born);
  // From birth to the wire it is encoded or queued; without a wire stage, until its queue ended.
  const int64_t sent = wire.seen() ? wire.begin_ns : queued.seen() ? queued.end_ns : encode.end_ns;
  if (encode.seen()) {
    parts.encode_ns = Overlap(begin_ns, end_ns, encode.begin_ns, std::min(encode.end_ns, sent));
  }
  parts.queued_ns = Overlap(begin_ns, end_ns, born, sent) - parts.encode_ns;
  int64_t arrived = sent;
  if (wire.seen()) {
    parts.wire_ns = Overlap(begin_ns, end_ns, wire.begin_ns, wire.end_ns);
    arrived = std::max(arrived, wire.end_ns);
  }
  if (decode.seen()) {
    parts.decode_ns = Overlap(begin_ns, end_ns, std::max(decode.begin_ns, arrived), decode.end_ns);
  }
  parts.unattributed_ns = (end_ns - begin_ns) - parts.upstream_busy_ns - parts.link_ns();
  return parts;
}

Messages::Grown Messages::Add(const Activity& transfer) {
  const int64_t own_ns = transfer.end_ns - transfer.begin_ns;
  if (transfer.link < 0 || transfer.source == kNoValue || transfer.sequence == kNoValue) {
    return {{transfer.begin_ns, transfer.end_ns}, own_ns};
  }
  const Key key{transfer.link, transfer.source, transfer.sequence};
  const auto [found, fresh] = lives_.try_emplace(key);
  if (fresh) order_.emplace_back(transfer.begin_ns, key);
  MessageLife::Span& span = found->second.stages[static_cast<size_t>(LifeStage(transfer.stage))];
  const int64_t before_ns = span.seen() ? span.end_ns - span.begin_ns : 0;
  span.begin_ns = span.seen() ? std::min(span.begin_ns, transfer.begin_ns) : transfer.begin_ns;
  span.end_ns = std::max({span.end_ns, transfer.end_ns, int64_t{1}});
  if (transfer.mapped && LifeStage(transfer.stage) == Stage::kWire) {
    arrivals_[transfer.link].insert({span.end_ns, {key, transfer.destination}});
  }
  return {span, span.end_ns - span.begin_ns - before_ns};
}

const MessageLife* Messages::Find(int link, uint64_t source, uint64_t sequence) const {
  const auto found = lives_.find({link, source, sequence});
  return found == lives_.end() ? nullptr : &found->second;
}

const MessageLife* Messages::Arrived(int link, uint64_t destination, int64_t begin_ns,
                                     int64_t end_ns) const {
  const auto arrivals = arrivals_.find(link);
  if (arrivals == arrivals_.end()) return nullptr;
  for (auto at = arrivals->second.upper_bound(end_ns); at != arrivals->second.begin();) {
    --at;
    if (at->first <= begin_ns) break;
    const Arrival& arrival = at->second;
    if (arrival.destination != kNoValue && arrival.destination != destination) continue;
    return Find(link, arrival.key.source, arrival.key.sequence);
  }
  return nullptr;
}

void Messages::Prune(int64_t ns) {
  for (auto& [link, arrivals] : arrivals_) {
    while (!arrivals.empty() && (arrivals.begin()->first < ns || arrivals.size() > kMaxMessages)) {
      arrivals.erase(arrivals.begin());
    }
  }
  while (!order_.empty() && (order_.front().first < ns || order_.size() > kMaxMessages)) {
    lives_.erase(order_.front().second);
    order_.pop_front();
  }
}

}  // namespace poolscope
