#include "reference-trainer/parameter_fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "reference-trainer/timing.h"

namespace poolscope::trainer {
namespace {

constexpr uint64_t kRequestBytes = 64;
constexpr uint64_t kDoublings = 6;  // of the time after which a request is repeated

}  // namespace

ParameterFetch::ParameterFetch(Job& job, Worker& worker, size_t index, Signal& signal,
                               Replica* replica)
    : job_(job),
      worker_(worker),
      index_(index),
      signal_(signal),
      replica_(replica),
      blocks_(job.fetch->blocks()),
      resident_counter_(poolscope_counter("resident_blocks")),
      entries_(blocks_.size()),
      hotness_(blocks_.size()),
      uses_(blocks_.group_names().size(), 0) {
  if (!replica_) return;
  for (size_t block = 0; block < blocks_.size(); ++block) {
    replica_->staged()->Forget(blocks_[block].ranges);
  }
}

ParameterFetch::~ParameterFetch() {
  for (size_t block = 0; block < blocks_.size(); ++block) {
    if (entries_[block].asked) job_.fetch->Arrived(block, entries_[block].holder);
  }
}

template <typename F>
void ParameterFetch::ForBlocks(const Groups& groups, const F& call) {
  for (const size_t group : groups) {
    for (const size_t block : blocks_.OfGroup(group)) call(block);
  }
}

void ParameterFetch::Begin(const MicroBatch& batch) {
  batch_ = batch;
  version_ = batch.version;
  oldest_ = UINT64_MAX;
  hotness_.Decay();
}

void ParameterFetch::Need(std::span<const Groups> ahead) {
  const auto next =
      ahead.first(std::min(ahead.size(), size_t{job_.options().fetch.prefetch_depth} + 1));
  for (Entry& entry : entries_) entry.wanted = false;
  for (const Groups& groups : next) {
    ForBlocks(groups, [&](size_t block) { entries_[block].wanted = true; });
  }
  Evict();
  ForBlocks(ahead.front(), [&](size_t block) { ++(Usable(entries_[block]) ? hits_ : misses_); });
  OpenWait wait;
  for (const Groups& groups : next) AskFor(groups, wait);
  for (;;) {
    const uint64_t ticket = signal_.Ticket();
    job_.CheckRunning();
    TakeArrived(wait);
    if (Here(ahead.front())) break;
    const int64_t repeat_ns = AskFor(ahead.front(), wait);
    wait.Begin(POOLSCOPE_WAIT_LINK, job_.weights->annotation());
    worker_.Waited();
    signal_.WaitPast(ticket, repeat_ns);
  }
  for (const size_t group : ahead.front()) ++uses_[group];
  ForBlocks(ahead.front(), [&](size_t block) {
    hotness_.Count(block);
    oldest_ = std::min(oldest_, entries_[block].version);
  });
}

bool ParameterFetch::Here(const Groups& groups) {
  bool here = true;
  ForBlocks(groups, [&](size_t block) { here = here && Usable(entries_[block]); });
  return here;
}

int64_t ParameterFetch::AskFor(const Groups& groups, OpenWait& wait) {
  int64_t repeat_ns = INT64_MAX;
  ForBlocks(groups, [&](size_t block) {
    const Entry& entry = entries_[block];
    if (Usable(entry)) return;
    // Also one asked for in a later version: work of this one may have been given to this worker
    // after all, and the later version may be waiting for it.
    if (!entry.asked || entry.asked_version != version_ || entry.repeat_ns <= NowNs()) {
      wait.End();
      Ask(block);
    }
    repeat_ns = std::min(repeat_ns, entry.repeat_ns);
  });
  return repeat_ns;
}

void ParameterFetch::End() {
  for (Entry& entry : entries_) entry.wanted = false;
  Evict();
  job_.fetch->Used(uses_, {hits_, misses_, asked_again_, most_resident_});
  std::fill(uses_.begin(), uses_.end(), 0);
  hits_ = misses_ = asked_again_ = 0;
}

int64_t ParameterFetch::AskForVersion(uint64_t version, OpenWait& wait) {
  version_ = version;
  batch_ = {version, POOLSCOPE_NO_VALUE, version};  // not known yet
  return AskFor({0}, wait);
}

// Again, where it was asked for this version already.
void ParameterFetch::Ask(size_t block) {
  Entry& entry = entries_[block];
  if (entry.asked) job_.fetch->Arrived(block, entry.holder);  // that answer is given up
  if (entry.asked && entry.asked_version == version_) {
    ++entry.repeats;
    ++asked_again_;
    GiveUpWhereLost(entry);
  } else {
    entry.repeats = 0;
  }
  entry.asked = true;
  entry.asked_version = version_;
  entry.holder = job_.fetch->Ask(block, index_);
  const int64_t timeout_ns = job_.options().fetch.timeout_ns;
  entry.repeat_ns =
      timeout_ns == 0 ? INT64_MAX : NowNs() + (timeout_ns << std::min(entry.repeats, kDoublings));
  auto message = std::make_unique<Message>();
  message->source = index_;
  message->destination = entry.holder;
  message->sequence = job_.fetch->requests->NextSequence(index_);
  message->raw_bytes = message->wire_bytes = kRequestBytes;
  message->weight_block = block;
  message->version = version_;
  message->step = batch_.step;
  message->micro_batch = batch_.number;
  worker_.HandOver(
      *job_.fetch->requests, std::move(message), [this](OpenWait& wait) { TakeArrived(wait); },
      true);
}

void ParameterFetch::GiveUpWhereLost(Entry& entry) {
  const ReliabilityOptions& reliability = job_.options().reliability;
  if (reliability.requests.reliable && reliability.weights.reliable) return;
  if (job_.coordinator->version() < version_) entry.repeats = 0;  // not lost, not made
  if (entry.repeats < reliability.limit) return;
  job_.coordinator->Fail(
      fmt::format("link weights: version {} from worker {} to worker {} did not get through in {} "
                  "tries (--retransmit-limit)",
                  version_, entry.holder, index_, entry.repeats));
  throw Abandoned{};
}

void ParameterFetch::TakeArrived(OpenWait& wait) {
  while (const MessagePtr message = job_.weights->TryTake(index_)) {
    wait.End(message->source, message->sequence);
    const size_t block = message->weight_block;
    Entry& entry = entries_[block];
    // The second answer to a request that was repeated, or one that came after all.
    if (!entry.asked || message->version < entry.asked_version) continue;
    const Ranges& ranges = blocks_[block].ranges;
    worker_.Open(*job_.weights, *message, replica_ ? SizeOf(ranges) : 0);
    worker_.Apply(*job_.weights, *message, [&] {
      if (replica_) replica_->Install(ranges, message->values);
    });
    job_.fetch->Arrived(block, entry.holder);
    entry.asked = false;
    entry.version = message->version;
    if (!entry.resident) SetResident(block, true);
  }
}

void ParameterFetch::Evict() {
  std::vector<size_t> kept;
  for (size_t block = 0; block < entries_.size(); ++block) {
    if (entries_[block].resident && !entries_[block].wanted) kept.push_back(block);
  }
  const size_t room = job_.options().fetch.cache_blocks;
  if (kept.size() <= room) return;
  const auto keep_first = [&](size_t block) {
    return std::tuple(Usable(entries_[block]), hotness_.score(block));
  };
  std::stable_sort(kept.begin(), kept.end(),
                   [&](size_t a, size_t b) { return keep_first(a) > keep_first(b); });
  for (size_t i = room; i < kept.size(); ++i) SetResident(kept[i], false);
}

void ParameterFetch::SetResident(size_t block, bool resident) {
  entries_[block].resident = resident;
  resident_ += resident ? 1 : -1;
  most_resident_ = std::max<uint64_t>(most_resident_, resident_);
  poolscope_sample(resident_counter_, static_cast<double>(resident_));
  if (!resident && replica_) replica_->staged()->Forget(blocks_[block].ranges);
}

}  // namespace poolscope::trainer
