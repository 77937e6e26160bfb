#include "agent/cupti_memory.h"

#include <algorithm>

#include "agent/cupti_record.h"
#include "trace/limits.h"
#include "trace/zeroed_memory.h"

namespace poolscope::agent::cupti {
namespace {

constexpr uint32_t kSlotMask = kMaxAllocations - 1;
constexpr uint32_t kMostHoldings = kMaxAllocations / 4 * 3;

constexpr const char* kNames[] = {"allocated_bytes",        "allocated_device_bytes",
                                  "allocated_pool_bytes",   "allocated_managed_bytes",
                                  "allocated_pinned_bytes", "reserved_pool_bytes"};

uint64_t Hash(uint64_t address) { return address * 0x9e3779b97f4a7c15 >> 32; }
uint32_t Home(uint64_t address) { return static_cast<uint32_t>(Hash(address)) & kSlotMask; }

}  // namespace

bool Holdings::Init() {
  moves_ = MapZeroed<MemoryMove>(kMaxMoves);
  holdings_ = MapZeroed<Holding>(kMaxAllocations);
  early_ = MapZeroed<Release>(kReleases);
  return moves_ != nullptr && holdings_ != nullptr && early_ != nullptr;
}

void Holdings::Add(ThreadWriter& writer, const MemoryMove& move) {
  if (move_count_ == kMaxMoves) Settle(writer);
  moves_[move_count_++] = move;
}

void Holdings::Settle(ThreadWriter& writer) {
  std::sort(moves_, moves_ + move_count_,
            [](const MemoryMove& a, const MemoryMove& b) { return a.at_ns < b.at_ns; });
  for (uint32_t i = 0; i < move_count_; ++i) Apply(writer, moves_[i]);
  move_count_ = 0;
}

void Holdings::Apply(ThreadWriter& writer, const MemoryMove& move) {
  if (move.pool != 0) Resize(writer, move);
  if (move.address == 0) return;
  if (move.operation == MemoryOperation::kAllocate) return Allocate(writer, move);
  Holding* held = Find(move.address);
  if (held->address == 0 || held->at_ns > move.at_ns) {
    early_[Hash(move.address) % kReleases] = {move.address, move.at_ns};
    return;
  }
  Change(writer, *held, false, move.at_ns);
  Erase(held);
}

void Holdings::Allocate(ThreadWriter& writer, const MemoryMove& move) {
  Release& released = early_[Hash(move.address) % kReleases];
  if (released.address == move.address && released.at_ns >= move.at_ns) {
    released = {};
    return;
  }
  Holding* held = Find(move.address);
  if (held->address != 0) {  // the release between the two is lost, or to come
    if (held->at_ns > move.at_ns) return;
    Change(writer, *held, false, move.at_ns);
  } else if (holding_count_ == kMostHoldings) {
    return writer.Lose(LossCause::kOpenTableFull);
  } else {
    ++holding_count_;
  }
  *held = {move.address, move.bytes, move.at_ns, move.device, move.kind};
  Change(writer, *held, true, move.at_ns);
}

void Holdings::Resize(ThreadWriter& writer, const MemoryMove& move) {
  Pool* pool = std::find_if(pools_, pools_ + kPools,
                            [&](const Pool& each) { return each.address == move.pool; });
  if (pool == pools_ + kPools) {
    pool = std::find_if(pools_, pools_ + kPools, [](const Pool& each) { return each.bytes == 0; });
    if (pool == pools_ + kPools) return writer.Lose(LossCause::kOpenTableFull);
    *pool = {move.pool, 0, 0, move.device};
  }
  if (pool->at_ns > move.at_ns) return;
  pool->at_ns = move.at_ns;
  const uint64_t bytes = move.operation == MemoryOperation::kDestroyPool ? 0 : move.pool_bytes;
  if (bytes == pool->bytes) return;
  ChangeCounter(writer, pool->device, kReserved, bytes - pool->bytes, move.at_ns);
  pool->bytes = bytes;
}

void Holdings::Change(ThreadWriter& writer, const Holding& holding, bool adds, uint64_t at_ns) {
  Counter counter;
  switch (holding.kind) {
    case MemoryKind::kPinned:
      counter = kPinned;
      break;
    case MemoryKind::kDevice:
    case MemoryKind::kArray:
    case MemoryKind::kDeviceStatic:
      counter = kDevice;
      break;
    case MemoryKind::kManaged:
    case MemoryKind::kManagedStatic:
      counter = kManaged;
      break;
    case MemoryKind::kPool:
      counter = kPool;
      break;
    default:
      return;
  }
  const uint64_t bytes = adds ? holding.bytes : 0 - holding.bytes;
  ChangeCounter(writer, holding.device, counter, bytes, at_ns);
  if (counter == kDevice || counter == kPool) {
    ChangeCounter(writer, holding.device, kAll, bytes, at_ns);
  }
}

void Holdings::ChangeCounter(ThreadWriter& writer, uint64_t device, Counter counter, uint64_t bytes,
                             uint64_t at_ns) {
  Count& count = counts_[std::min<uint64_t>(device, kDevices)][counter];
  if (count.name == 0) {
    count.name = DefineCounter(device < kDevices ? device : kNoDevice, kNames[counter]);
  }
  count.bytes += bytes;
  sampled_ns_ = std::max(sampled_ns_, at_ns);
  EventPayload value;
  value.value = count.bytes;
  WriteCounter(writer, count.name, sampled_ns_, value);
}

Holdings::Holding* Holdings::Find(uint64_t address) const {
  uint32_t slot = Home(address);
  while (holdings_[slot].address != 0 && holdings_[slot].address != address) {
    slot = (slot + 1) & kSlotMask;
  }
  return &holdings_[slot];
}

// Those after it that it had pushed away move up.
void Holdings::Erase(Holding* holding) {
  auto hole = static_cast<uint32_t>(holding - holdings_);
  for (uint32_t next = (hole + 1) & kSlotMask; holdings_[next].address != 0;
       next = (next + 1) & kSlotMask) {
    const uint32_t moved = (next - Home(holdings_[next].address)) & kSlotMask;
    if (moved < ((next - hole) & kSlotMask)) continue;
    holdings_[hole] = holdings_[next];
    hole = next;
  }
  holdings_[hole] = {};
  --holding_count_;
}

}  // namespace poolscope::agent::cupti
