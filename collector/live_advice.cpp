#include "collector/live_advice.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "advisor/report.h"
#include "collector/finding_tracker.h"

namespace poolscope {
namespace {

constexpr std::chrono::milliseconds kInterval{2000};
constexpr int kPauseFactor = 9;  // pauses this many times as long as an evaluation took
constexpr int kNice = 10;
constexpr size_t kMaxReady = 64;

}  // namespace

LiveAdvice::LiveAdvice(std::filesystem::path store)
    : path_(std::move(store)), thread_([this] { Loop(); }) {}

LiveAdvice::~LiveAdvice() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::vector<LiveAdvice::Advice> LiveAdvice::Exchange(std::vector<std::string> live_runs) {
  const std::lock_guard lock(mutex_);
  live_runs_ = std::move(live_runs);
  return std::exchange(ready_, {});
}

void LiveAdvice::Loop() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
  std::optional<Store> store;
  std::map<std::string, FindingTracker> trackers;
  auto pause = kInterval;
  while (true) {
    std::vector<std::string> runs;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, pause, [this] { return stop_; });
      if (stop_) return;
      runs = live_runs_;
    }
    if (!store.has_value()) {
      auto opened = Store::Open(path_, Store::Mode::kRead);
      if (!opened.ok()) continue;
      store.emplace(std::move(*opened));
    }
    const auto began = std::chrono::steady_clock::now();
    for (const std::string& run : runs) {
      const auto report = BuildReport(*store, run, {.live = true});
      if (!report.ok()) continue;  // nothing of it is stored yet
      auto [tracker, fresh] = trackers.try_emplace(run, run);
      if (fresh) {
        if (const auto stored = store->Findings(run); stored.ok()) tracker->second.Load(*stored);
      }
      Advice advice{run, tracker->second.Update(report->findings, report->analysed_end_ns), {}};
      for (const Finding& finding : report->findings) {
        if (finding.recommendation.has_value()) {
          advice.speedups[{finding.rule, finding.subject}] =
              finding.recommendation->predicted_speedup;
        }
      }
      if (advice.rows.empty()) continue;
      const std::lock_guard lock(mutex_);
      if (ready_.size() < kMaxReady) ready_.push_back(std::move(advice));
    }
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - began);
    pause = std::max(kInterval, took * kPauseFactor);
    std::erase_if(trackers, [&](const auto& entry) {
      return std::find(runs.begin(), runs.end(), entry.first) == runs.end();
    });
  }
}

}  // namespace poolscope
