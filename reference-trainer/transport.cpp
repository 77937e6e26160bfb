#include "reference-trainer/transport.h"

#include <poolscope/annotate.h>

#include <algorithm>
#include <chrono>

#include "reference-trainer/timing.h"

namespace poolscope::trainer {
namespace {

constexpr int64_t kShortestNs = 20'000, kLongestNs = 1'000'000, kShare = 32;

}  // namespace

void Transport::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Transport::Send(int rank, int tag, Bytes bytes, Task sent) {
  Post([this, rank, tag, bytes = std::move(bytes), sent = std::move(sent)]() mutable {
    if (rank != rank_) return Begin(rank, tag, std::move(bytes), std::move(sent));
    Deliver(rank, tag, std::move(bytes));
    if (sent) sent();
  });
}

void Transport::Post(Task task) {
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Transport::At(int64_t ns, Task task) {
  {
    std::lock_guard lock(mutex_);
    timers_.emplace(ns, std::move(task));
  }
  changed_.notify_one();
}

void Transport::Close() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

bool Transport::RunTasks() {
  std::vector<Task> tasks;
  {
    std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
    const auto due = timers_.upper_bound(NowNs());
    for (auto timer = timers_.begin(); timer != due; ++timer) {
      tasks.push_back(std::move(timer->second));
    }
    timers_.erase(timers_.begin(), due);
  }
  for (const Task& task : tasks) task();
  return !tasks.empty();
}

void Transport::Run() {
  UseFineTimers();
  // Where the wire stages of all links lie.
  nvtxNameOsThreadA(static_cast<uint32_t>(syscall(SYS_gettid)), "link/*/0");
  int64_t last_ns = NowNs();  // when something happened
  for (;;) {
    const bool ran = RunTasks();
    const bool looked = Look();
    const int64_t now = NowNs();
    if (ran || looked) last_ns = now;
    std::unique_lock lock(mutex_);
    if (!tasks_.empty()) continue;
    if (closing_) {
      timers_.clear();  // messages still on their way
      if (!Sending() && AllClosed()) return;
    }
    int64_t pause = std::clamp((now - last_ns) / kShare, kShortestNs, kLongestNs);
    if (Sending()) pause = kShortestNs;  // a large message needs this process to go on
    if (!timers_.empty()) pause = std::min(pause, timers_.begin()->first - now);
    if (pause > 0) changed_.wait_for(lock, std::chrono::nanoseconds(pause));
  }
}

}  // namespace poolscope::trainer
