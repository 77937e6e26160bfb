#include "collector/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace poolscope {
namespace {

constexpr size_t kMaxMembers = 1'000'000;  // ranks of communicators
constexpr size_t kMaxWaiting = 100'000;    // groups and pairs; then the oldest are given up on

bool FromRoot(NcclFunction function) {
  return function == NcclFunction::kBroadcast || function == NcclFunction::kScatter;
}
bool ToRoot(NcclFunction function) {
  return function == NcclFunction::kReduce || function == NcclFunction::kGather;
}

}  // namespace

void Collectives::Learn(const NcclOperation& operation) {
  if (operation.worker >= 0 && members_.size() < kMaxMembers) {
    members_[{operation.communicator, operation.rank}] = operation.worker;
  }
}

void Collectives::Add(const NcclOperation& operation) {
  Learn(operation);
  if (!operation.point_to_point()) {
    groups_[{operation.communicator, operation.function, operation.sequence}].push_back(operation);
    return;
  }
  Pair& pair = pairs_[PairOf(operation)];
  (operation.function == NcclFunction::kSend ? pair.sends : pair.receives).push_back(operation);
}

Collectives::PairKey Collectives::PairOf(const NcclOperation& operation) {
  const auto& [communicator, rank, peer] =
      std::tie(operation.communicator, operation.rank, operation.peer);
  return operation.function == NcclFunction::kSend ? PairKey{communicator, rank, peer}
                                                   : PairKey{communicator, peer, rank};
}

void Collectives::AddStored(const NcclOperation& operation, const Mark& mark) {
  const int64_t counted_ns =
      operation.function == NcclFunction::kSend ? mark.sent_ns : mark.received_ns;
  if (!operation.point_to_point() || operation.end_ns > counted_ns) Add(operation);
}

void Collectives::SawSequence(uint64_t sequence) {
  if (sequence != kNoValue) next_sequence_ = std::max(next_sequence_, sequence + 1);
}

void Collectives::Settle(int64_t closed_ns) {
  std::erase_if(groups_, [&](const auto& group) {
    return std::all_of(group.second.begin(), group.second.end(),
                       [&](const NcclOperation& each) { return each.end_ns < closed_ns; });
  });
  counted_ns_ = closed_ns;
  for (auto& [key, pair] : pairs_) TakePairs(pair, closed_ns);
  counted_ns_ = INT64_MIN;
}

std::map<Collectives::PairKey, Collectives::Mark> Collectives::Marks(int64_t closed_ns) {
  std::map<PairKey, Mark> marks;
  for (auto& [key, pair] : pairs_) {
    std::vector<Mark> latest{{}};  // ends of the first so many that are done
    for (const Done& done : pair.done) {
      if (std::max(done.sent_ns, done.received_ns) >= closed_ns) break;
      latest.push_back({std::max(latest.back().sent_ns, done.sent_ns),
                        std::max(latest.back().received_ns, done.received_ns)});
    }
    Mark rest{INT64_MAX, INT64_MAX};  // the earliest ends of all others: behind the mark
    const auto add = [](int64_t& earliest, int64_t end_ns) {
      if (end_ns != INT64_MIN) earliest = std::min(earliest, end_ns);
    };
    for (const NcclOperation& send : pair.sends) add(rest.sent_ns, send.end_ns);
    for (const NcclOperation& receive : pair.receives) add(rest.received_ns, receive.end_ns);
    for (size_t i = pair.done.size(); i > 0; --i) {
      if (i < latest.size() && latest[i].sent_ns < rest.sent_ns &&
          latest[i].received_ns < rest.received_ns) {
        marks[key] = latest[i];
        pair.done.erase(pair.done.begin(), pair.done.begin() + static_cast<std::ptrdiff_t>(i));
        break;
      }
      add(rest.sent_ns, pair.done[i - 1].sent_ns);
      add(rest.received_ns, pair.done[i - 1].received_ns);
    }
  }
  return marks;
}

std::vector<Activity> Collectives::Take(int64_t until_ns) {
  if (groups_.size() > kMaxWaiting || pairs_.size() > kMaxWaiting) until_ns = INT64_MAX;
  for (auto it = groups_.begin(); it != groups_.end();) {
    const Group& group = it->second;
    const auto last =
        std::max_element(group.begin(), group.end(),
                         [](const auto& a, const auto& b) { return a.end_ns < b.end_ns; });
    const int64_t ranks = group.front().ranks;
    const bool complete = ranks > 0 && static_cast<int64_t>(group.size()) >= ranks;
    if (!complete && last->end_ns >= until_ns) {
      ++it;
      continue;
    }
    Finish(group);
    it = groups_.erase(it);
  }
  for (auto it = pairs_.begin(); it != pairs_.end();) {
    TakePairs(it->second, until_ns);
    const Pair& pair = it->second;
    const bool over = pair.sends.empty() && pair.receives.empty() && pair.done.empty();
    it = over ? pairs_.erase(it) : std::next(it);
  }
  return std::exchange(out_, {});
}

void Collectives::TakePairs(Pair& pair, int64_t until_ns) {
  auto& [sends, receives, done] = pair;
  const auto alone = [&](std::deque<NcclOperation>& of) {
    const int64_t end_ns = of.front().end_ns;
    pair.done.push_back(&of == &pair.sends ? Done{end_ns, INT64_MIN} : Done{INT64_MIN, end_ns});
    Finish({of.front()});
    of.pop_front();
  };
  while (!sends.empty() && !receives.empty()) {
    const NcclOperation& send = sends.front();
    const NcclOperation& receive = receives.front();
    if (receive.end_ns < send.begin_ns) {  // its send is missing
      alone(receives);
    } else if (send.bytes != receive.bytes) {
      alone(send.begin_ns < receive.begin_ns ? sends : receives);
    } else {
      done.push_back({send.end_ns, receive.end_ns});
      Finish({send, receive});
      sends.pop_front();
      receives.pop_front();
    }
  }
  while (!sends.empty() && sends.front().end_ns < until_ns) alone(sends);
  while (!receives.empty() && receives.front().end_ns < until_ns) alone(receives);
}

std::set<std::string> Collectives::PoolsOf(const Group& group) const {
  const NcclOperation& first = group.front();
  std::set<std::string> pools;
  for (const NcclOperation& operation : group) {
    if (operation.worker >= 0) pools.insert(PoolOf(operation.worker));
  }
  for (auto it = members_.lower_bound({first.communicator, INT64_MIN});
       !first.point_to_point() && it != members_.end() && it->first.first == first.communicator;
       ++it) {
    pools.insert(PoolOf(it->second));
  }
  return pools;
}

Activity Collectives::Wait(const NcclOperation& operation) {
  const Group group = {operation};
  Activity wait;
  wait.operation = true;
  wait.link = LinkOf(group, PoolsOf(group));
  wait.category = wait.link < 0 ? Category::kWaitPeer : Category::kWaitLink;
  wait.worker = operation.worker;
  wait.begin_ns = operation.begin_ns;
  wait.end_ns = operation.end_ns;
  return wait;
}

void Collectives::Finish(const Group& group) {
  const NcclOperation& first = group.front();
  const std::set<std::string> pools = PoolsOf(group);
  int64_t start_ns = first.begin_ns;
  int64_t end_ns = first.end_ns;
  int64_t ranks = static_cast<int64_t>(group.size());
  bool timed = true;
  for (const NcclOperation& operation : group) {
    start_ns = std::max(start_ns, operation.begin_ns);
    end_ns = std::max(end_ns, operation.end_ns);
    timed = timed && operation.timed;
    if (!operation.point_to_point()) ranks = std::max(ranks, operation.ranks);
  }
  if (end_ns < counted_ns_) return;
  const NcclSize size = SizeOf(first.function, first.bytes, ranks);
  CollectiveWindowRow row{model_.run_id()};
  row.communicator = fmt::format("{:016x}", first.communicator);
  row.function = first.point_to_point() ? "SendRecv" : NcclFunctionName(first.function);
  row.pools = fmt::format("{}", fmt::join(pools, "+"));
  row.window_ns = window_ns_;
  row.ranks = ranks;
  row.operations = 1;
  row.bytes = std::llround(size.bytes);
  if (timed) {
    row.bus_bytes = std::llround(size.bytes * size.bus_factor);
    row.wire_ns = end_ns - start_ns;
    for (const NcclOperation& operation : group) row.wait_ns += start_ns - operation.begin_ns;
  }
  finished_.push_back({end_ns, row});
  if (!timed) return;

  const int link = LinkOf(group, pools);
  Activity wait;
  wait.operation = true;
  wait.category = link < 0 ? Category::kWaitPeer : Category::kWaitLink;
  wait.link = link;
  if (link >= 0 && !model_.links()[static_cast<size_t>(link)].annotated) {
    Activity transfer;
    transfer.category = Category::kTransfer;
    transfer.stage = Stage::kWire;
    transfer.on_thread = false;
    transfer.link = link;
    transfer.begin_ns = start_ns;
    transfer.end_ns = end_ns;
    transfer.raw_bytes = static_cast<uint64_t>(row.bytes);
    transfer.wire_bytes = static_cast<uint64_t>(row.bus_bytes);
    const RunModel::Link& known = model_.links()[static_cast<size_t>(link)];
    std::set<int64_t> receivers;
    bool sent = false;  // the sender is known: one of the sending pool's ranks, else inferred
    for (const NcclOperation& operation : group) {
      if (operation.worker < 0) continue;
      const RunModel::Worker& worker = model_.workers()[static_cast<size_t>(operation.worker)];
      if (worker.pool == known.to_pool) receivers.insert(worker.index);
      if (sent || (transfer.source != kNoValue && worker.pool != known.from_pool)) continue;
      transfer.origin = operation.origin;
      transfer.source = model_.SenderOf(link, operation.worker);
      sent = worker.pool == known.from_pool;
    }
    if (receivers.size() == 1) transfer.destination = static_cast<uint64_t>(*receivers.begin());
    transfer.sequence = next_sequence_++;
    wait.source = transfer.source;
    wait.sequence = transfer.sequence;
    out_.push_back(transfer);
  }
  for (const NcclOperation& operation : group) {
    if (operation.worker < 0) continue;
    wait.worker = operation.worker;
    wait.begin_ns = operation.begin_ns;
    wait.end_ns = operation.end_ns;
    wait.origin = operation.origin;
    out_.push_back(wait);
  }
}

int Collectives::LinkOf(const Group& group, const std::set<std::string>& pools) {
  const NcclOperation& first = group.front();
  if (first.link >= 0) return first.link;
  if (pools.size() != 2) return -1;
  std::string from = *pools.begin();
  std::string to = *pools.rbegin();
  bool directed = true;
  const auto from_pool_of = [&](int64_t rank, bool is_from) {
    const auto member = members_.find({first.communicator, rank});
    if (member == members_.end()) {
      directed = false;
    } else if ((PoolOf(member->second) == from) != is_from) {
      std::swap(from, to);
    }
  };
  if (first.point_to_point()) {
    from_pool_of(first.rank, first.function == NcclFunction::kSend);
  } else if (FromRoot(first.function) || ToRoot(first.function)) {
    from_pool_of(first.peer, FromRoot(first.function));
  } else {
    directed = false;
  }
  return model_.LinkBetween(from, to, directed);
}

std::vector<CollectiveWindowRow> Collectives::Rows(int64_t closed_ns) {
  std::set<RowKey> changed;
  for (const auto& [end_ns, one] : std::exchange(finished_, {})) {
    const int64_t start_ns = std::max(end_ns, closed_ns) / window_ns_ * window_ns_;
    const RowKey key{start_ns, one.communicator, one.function};
    const auto [found, fresh] = sums_.try_emplace(key, one);
    CollectiveWindowRow& sum = found->second;
    changed.insert(key);
    if (fresh) {
      sum.start_ns = start_ns;
      continue;
    }
    sum.pools = one.pools;
    sum.ranks = std::max(sum.ranks, one.ranks);
    sum.operations += one.operations;
    sum.bytes += one.bytes;
    sum.bus_bytes += one.bus_bytes;
    sum.wire_ns += one.wire_ns;
    sum.wait_ns += one.wait_ns;
  }
  std::vector<CollectiveWindowRow> rows;
  for (const RowKey& key : changed) rows.push_back(sums_.at(key));
  sums_.erase(sums_.begin(), sums_.lower_bound({closed_ns / window_ns_ * window_ns_, "", ""}));
  return rows;
}

}  // namespace poolscope
