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
      ready_counter_(options.workers > 0 ? poolscope_counter("data.ready") : 0) {
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

std::shared_ptr<const Batch> DataLoader::Prepare(uint64_t index) const {
  const int64_t end = NowNs() + std::llround(options_.delay_seconds * 1e9);
  std::shared_ptr<const Batch> batch = read_(index);
  SleepUntilNs(end);
  return batch;
}

std::shared_ptr<const Batch> DataLoader::Get(uint64_t index, Signal& signal,
                                             const std::function<void()>& check, bool& waited) {
  OpenWait wait;
  if (options_.workers == 0) {
    waited = true;
    wait.Begin(POOLSCOPE_INPUT, annotation_);
    return Prepare(index);
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
    std::shared_ptr<const Batch> batch = Prepare(index);
    poolscope_end();
    lock.lock();
    Entry& entry = entries_[index];
    entry.ready = true;
    entry.batch = std::move(batch);
    CountReady(+1);
    if (entry.caller) entry.caller->Notify();
  }
}

}  // namespace poolscope::trainer
