#include "reference-trainer/data_loader.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "reference-trainer/annotations.h"
#include "reference-trainer/timing.h"

namespace poolscope::trainer {

DataLoader::DataLoader(const InputOptions& options, Read read)
    : options_(options),
      read_(std::move(read)),
      annotation_(poolscope_name("data")),
      ready_counter_(poolscope_counter("data.ready")) {
  for (size_t i = 0; i < options_.workers; ++i) {
    threads_.emplace_back([this, i] { Work(i); });
  }
}

DataLoader::~DataLoader() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::shared_ptr<const Batch> DataLoader::Prepare(uint64_t index, double seconds) const {
  const int64_t end = NowNs() + std::llround(seconds * 1e9);
  std::shared_ptr<const Batch> batch = read_(index);
  SleepUntilNs(end);
  return batch;
}

std::shared_ptr<const Batch> DataLoader::Get(uint64_t index, Signal& signal,
                                             const std::function<void()>& check, bool& waited) {
  OpenWait wait;
  if (options_.workers == 0) {
    const Entry entry = Take(index);
    if (entry.ready) return entry.batch;
    waited = true;
    wait.Begin(POOLSCOPE_INPUT, annotation_);
    return Prepare(index, entry.left_seconds);
  }
  for (;;) {
    const uint64_t ticket = signal.Ticket();
    check();
    {
      std::lock_guard lock(mutex_);
      const auto [found, fresh] = entries_.try_emplace(index);
      Entry& entry = found->second;
      if (entry.ready) {
        std::shared_ptr<const Batch> batch = std::move(entry.batch);
        entries_.erase(found);
        CountReady(-1);
        work_.notify_one();
        return batch;
      }
      entry.caller = &signal;
      if (fresh) {
        asked_.insert(index);
        // A run that goes on from a checkpoint begins anywhere.
        if (index >= next_ + options_.prefetch + options_.workers) next_ = index;
        if (index >= next_) ahead_.insert(index);
        work_.notify_one();
      }
    }
    waited = true;
    wait.Begin(POOLSCOPE_INPUT, annotation_);
    signal.WaitPast(ticket);
  }
}

DataLoader::Entry DataLoader::Take(uint64_t index) {
  std::lock_guard lock(mutex_);
  next_ = std::max(next_, index + 1);
  auto node = entries_.extract(index);
  if (node.empty()) {
    Entry fresh;
    fresh.left_seconds = options_.delay_seconds;
    return fresh;
  }
  if (node.mapped().ready) CountReady(-1);
  return std::move(node.mapped());
}

void DataLoader::GoTo(uint64_t index) {
  std::lock_guard lock(mutex_);
  entries_.clear();
  asked_.clear();
  ahead_.clear();
  next_ = index;
  CountReady(-static_cast<int>(ready_));
  work_.notify_all();
}

bool DataLoader::PrepareSlice(double seconds, const RunSlice& run) {
  std::unique_lock lock(mutex_);
  auto found = std::find_if(entries_.begin(), entries_.end(), [](const auto& each) {
    return !each.second.ready && !each.second.held;
  });
  if (found == entries_.end()) {
    if (entries_.size() >= options_.prefetch) return false;
    found = entries_.try_emplace(next_++).first;
    found->second.left_seconds = options_.delay_seconds;
  }
  const uint64_t index = found->first;
  const double left = found->second.left_seconds;
  found->second.held = true;
  lock.unlock();
  std::shared_ptr<const Batch> batch;
  const bool last = left <= seconds;
  run(std::min(left, seconds), [&] {
    if (last) batch = read_(index);
  });
  lock.lock();
  found = entries_.find(index);
  if (found == entries_.end()) return true;  // needed meanwhile, and finished by who needed it
  Entry& entry = found->second;
  entry.held = false;
  entry.left_seconds = left - seconds;
  if (last) {
    entry.ready = true;
    entry.batch = std::move(batch);
    CountReady(+1);
  }
  return true;
}

bool DataLoader::PickNext(uint64_t& index) {
  if (!asked_.empty()) {
    index = *asked_.begin();
    asked_.erase(asked_.begin());
    return true;
  }
  const auto unasked = std::count_if(entries_.begin(), entries_.end(), [](const auto& each) {
    return each.second.caller == nullptr;
  });
  if (static_cast<uint64_t>(unasked) >= options_.prefetch) return false;
  while (ahead_.erase(next_) > 0) ++next_;
  index = next_++;
  entries_.try_emplace(index);
  return true;
}

void DataLoader::CountReady(int change) {
  ready_ += static_cast<size_t>(change);
  poolscope_sample(ready_counter_, static_cast<double>(ready_));
}

void DataLoader::Work(size_t thread) {
  const std::string name = "data/" + std::to_string(thread);
  nvtxNameOsThreadA(static_cast<uint32_t>(syscall(SYS_gettid)), name.c_str());
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    uint64_t index = 0;
    if (!PickNext(index)) {
      work_.wait(lock);
      continue;
    }
    lock.unlock();
    poolscope_begin(POOLSCOPE_INPUT, annotation_);
    std::shared_ptr<const Batch> batch = Prepare(index, options_.delay_seconds);
    poolscope_end();
    lock.lock();
    const auto found = entries_.find(index);
    if (found == entries_.end()) continue;  // GoTo
    Entry& entry = found->second;
    entry.ready = true;
    entry.batch = std::move(batch);
    CountReady(+1);
    if (entry.caller) entry.caller->Notify();
  }
}

}  // namespace poolscope::trainer
