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

void Collectives::Add(const NcclOperation& operation) {
  if (operation.worker >= 0 && members_.size() < kMaxMembers) {
    members_[{operation.communicator, operation.rank}] = operation.worker;
  }
  if (!operation.point_to_point()) {
    groups_[{operation.communicator, operation.function, operation.sequence}].push_back(operation);
    return;
  }
  const bool sends = operation.function == NcclFunction::kSend;
  Pair& pair = pairs_[sends ? PairKey{operation.communicator, operation.rank, operation.peer}
                            : PairKey{operation.communicator, operation.peer, operation.rank}];
  (sends ? pair.sends : pair.receives).push_back(operation);
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
    it = it->second.sends.empty() && it->second.receives.empty() ? pairs_.erase(it) : std::next(it);
  }
  return std::exchange(out_, {});
}

void Collectives::TakePairs(Pair& pair, int64_t until_ns) {
  auto& [sends, receives] = pair;
  const auto alone = [&](std::deque<NcclOperation>& of) {
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
      Finish({send, receive});
      sends.pop_front();
      receives.pop_front();
    }
  }
  while (!sends.empty() && sends.front().end_ns < until_ns) alone(sends);
  while (!receives.empty() && receives.front().end_ns < until_ns) alone(receives);
}

void Collectives::Finish(const Group& group) {
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
    for (const NcclOperation& operation : group) {
      if (operation.worker >= 0) transfer.source = model_.SenderOf(link, operation.worker);
      if (transfer.source != kNoValue) break;
    }
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
