#include "agent/cupti_launches.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "agent/process.h"
#include "trace/zeroed_memory.h"

namespace poolscope::agent::cupti {
namespace {

constinit thread_local uint32_t own_tid = 0;

}  // namespace

Launch LaunchNow() {
  Launch launch;
  if (own_tid == 0) own_tid = static_cast<uint32_t>(syscall(SYS_gettid));
  launch.tid = own_tid;
  launch.called_ns = static_cast<uint64_t>(MonotonicNs());
  const OpenRange* open = current_writer != nullptr ? current_writer->innermost() : nullptr;
  if (open != nullptr) {
    launch.range = open->name;
    launch.open_id = open->open_id;
  }
  return launch;
}

bool Launches::Init() {
  slots_ = MapZeroed<Slot>(kMaxLaunches);
  return slots_ != nullptr;
}

Launches::Slot& Launches::At(uint32_t correlation) const {
  return slots_[correlation & (kMaxLaunches - 1)];
}

void Launches::Remember(uint32_t correlation, const Launch& launch) {
  Slot& slot = At(correlation);
  slot.key.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  slot.range.store(launch.range | uint64_t{launch.open_id} << 32, std::memory_order_relaxed);
  slot.called_ns.store(launch.called_ns, std::memory_order_relaxed);
  slot.key.store(correlation | uint64_t{launch.tid} << 32, std::memory_order_release);
}

bool Launches::Find(uint32_t correlation, Launch* launch) const {
  const Slot& slot = At(correlation);
  const uint64_t key = slot.key.load(std::memory_order_acquire);
  if (static_cast<uint32_t>(key) != correlation || key == 0) return false;
  const uint64_t range = slot.range.load(std::memory_order_relaxed);
  launch->called_ns = slot.called_ns.load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (slot.key.load(std::memory_order_relaxed) != key) return false;
  launch->tid = static_cast<uint32_t>(key >> 32);
  launch->range = static_cast<uint32_t>(range);
  launch->open_id = static_cast<uint32_t>(range >> 32);
  return true;
}

}  // namespace poolscope::agent::cupti
