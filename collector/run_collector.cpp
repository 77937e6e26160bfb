#include <poll.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "collector/collector.h"
#include "collector/metrics_server.h"

namespace poolscope {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A ring this full is drained at once; one that fills slower waits for the interval.
constexpr double kDrainFill = 0.2;
constexpr int64_t kLookIntervalMs = 5;

// Waits for new sessions, or `ms`. True: there are some.
bool Wait(const std::vector<int>& fds, int ms) {
  std::vector<pollfd> polled;
  polled.reserve(fds.size());
  for (const int fd : fds) polled.push_back({fd, POLLIN, 0});
  return poll(polled.data(), polled.size(), ms) > 0;
}

}  // namespace

Status RunCollector(const CollectorOptions& options, const std::atomic<bool>& stop,
                    const CollectorCalls& calls) {
  const auto say = [&](const std::string& line) {
    if (calls.say) calls.say(line);
  };
  Metrics metrics(options.version);
  std::unique_ptr<MetricsServer> server;
  auto opened = Collector::Open(options, &metrics);
  if (!opened.ok()) return opened.error();
  std::unique_ptr<Collector> collector = std::move(*opened);
  if (!options.metrics_address.empty()) {
    const auto address = ParseMetricsAddress(options.metrics_address);
    if (!address.ok()) return address.error();
    auto started = MetricsServer::Start(*address, metrics);
    if (started.ok()) {
      server = std::move(*started);
    } else {
      say("warning: " + started.error().message + "; going on without metrics");
    }
  }
  if (calls.ready) calls.ready(server == nullptr ? "" : server->url());
  std::optional<LiveAdvice> advice;
  if (options.live_advice) advice.emplace(options.store);
  CollectorProgress progress;
  auto progress_due = Clock::now();
  std::string failure;  // of the last round; "" when it went well
  while (true) {
    const bool last = stop.load();
    const auto started = Clock::now();
    Status status;
    double fill = 0;
    size_t sessions = 0;
    bool expecting = false;
    if (advice.has_value()) collector->TakeAdvice(advice->Exchange(collector->live_runs()));
    if (last) {
      status = collector->Leave();
    } else if (auto drained = collector->Drain(); drained.ok()) {
      fill = drained->fill;
      sessions = drained->sessions;
      expecting = drained->expecting;
      progress.events += drained->events;
    } else {
      status = drained.error();
    }
    for (const std::string& warning : collector->TakeWarnings()) say(warning);
    if (!status.ok()) {
      if (last) return status;
      if (failure != status.error().message) say(status.error().message + "; trying again");
      failure = status.error().message;
      metrics.CountFailure();
      // Start again from what the store holds; meanwhile the rings keep, and count, what comes.
      collector.reset();
      while (collector == nullptr && !stop.load()) {
        std::this_thread::sleep_for(milliseconds(500));
        auto again = Collector::Open(options, &metrics);
        if (again.ok()) collector = std::move(*again);
      }
      if (collector == nullptr) return Error{failure};
      continue;
    }
    if (last) return {};
    if (calls.progress && Clock::now() >= progress_due) {
      progress.sessions = sessions;
      progress.lost = collector->lost();
      calls.progress(progress);
      progress_due = Clock::now() + std::chrono::seconds(1);
    }
    if (!failure.empty()) say("stored again");
    failure.clear();
    // The fuller the rings were, the sooner the next look.
    while (!stop.load() && fill <= kDrainFill) {
      const auto left = std::chrono::duration_cast<milliseconds>(
          started + milliseconds(options.drain_interval_ms) - Clock::now());
      if (left.count() <= 0) break;
      const int64_t most = expecting ? 1 : sessions == 0 ? left.count() : kLookIntervalMs;
      if (Wait(collector->notify_fds(), static_cast<int>(std::min(left.count(), most)))) break;
      if (expecting) break;
      fill = collector->Fill();
    }
  }
}

}  // namespace poolscope
