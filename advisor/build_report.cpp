#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "advisor/advice.h"
#include "advisor/report.h"
#include "advisor/rules/rule.h"
#include "advisor/run_data.h"
#include "advisor/search.h"
#include "advisor/window_totals.h"
#include "store/symbol_label.h"

namespace poolscope {
namespace {

constexpr double kIdle = 0.5;           // a run whose busiest pool is below is not called healthy
constexpr double kUnattributed = 0.05;  // of the receivers' time, before it is mentioned

void AddPools(const RunData& run, const WindowTotals& totals, Report& report) {
  for (size_t i = 0; i < run.pools.size(); ++i) {
    PoolReport pool{run.pools[i].pool, run.pools[i].role, run.pools[i].workers, 0, {}};
    pool.busy_ratio = totals.pools[i].busy_ratio;
    for (size_t s = 0; s < totals.pools[i].state_ratios.size(); ++s) {
      pool.state_ratios[StateName(static_cast<State>(s))] = totals.pools[i].state_ratios[s];
    }
    report.pools.push_back(std::move(pool));
  }
}

void AddLinks(const RunData& run, const WindowTotals& totals, Report& report) {
  static constexpr const char* kStages[] = {"queued", "encode", "wire", "decode", "apply"};
  for (size_t i = 0; i < run.links.size(); ++i) {
    const LinkTotals& from = totals.links[i];
    LinkReport link;
    link.name = run.links[i].link;
    link.from = run.links[i].from_pool;
    link.to = run.links[i].to_pool;
    link.traffic_share = from.traffic_share;
    link.exposed_share = from.exposed_share;
    link.transfers = from.transfers;
    link.raw_bytes = from.raw_bytes;
    link.wire_bytes = from.wire_bytes;
    link.depth = from.depth_mean;
    link.capacity = run.links[i].capacity > 0 ? run.links[i].capacity : from.capacity;
    for (size_t s = 0; s < 5; ++s) link.stage_seconds[kStages[s]] = from.stage_seconds[s];
    link.transfer_seconds =
        std::accumulate(from.stage_seconds.begin(), from.stage_seconds.begin() + 4, 0.0);
    report.links.push_back(std::move(link));
  }
}

void AddSteps(const RunData& run, const AnalysedSpan& span, Report& report) {
  report.steps = static_cast<int64_t>(run.steps.size());
  const std::vector<double> seconds = StepSeconds(run, span);
  if (seconds.empty()) return;
  report.step_seconds = Median(seconds);
  const double tokens = TokensPerSecond(run, span);
  if (tokens > 0) report.tokens_per_second = tokens;
}

// What a job recorded that said nothing of pools: "230 ranges on 4 threads, most time in 'a', 'b'".
std::string Recorded(const Store& store, const RunData& run) {
  constexpr size_t kNamed = 4, kMostLabel = 80;
  std::map<uint32_t, int64_t> time;  // by name
  int64_t ranges = 0;
  const auto tracks = store.Tracks(run.run.run_id);
  if (!tracks) return "";
  for (const TrackRow& track : *tracks) {
    if (track.kind != static_cast<uint32_t>(EventKind::kRange)) continue;
    const auto names = store.ChunkNames(track.track_id, {});
    if (!names) return "";
    for (const Store::NameTotal& total : *names) {
      ranges += total.events;
      time[total.name] += total.total_ns;
    }
  }
  if (ranges == 0) return "";
  std::vector<std::pair<int64_t, uint32_t>> longest;
  for (const auto& [name, ns] : time) longest.emplace_back(ns, name);
  std::sort(longest.rbegin(), longest.rend());
  std::set<uint32_t> symbols;
  if (const auto rows = store.Symbols(); rows) {
    for (const SymbolRow& row : *rows) symbols.insert(row.string_id);
  }
  std::string text;
  for (size_t i = 0; i < std::min(kNamed, longest.size()); ++i) {
    const auto name = store.String(longest[i].second);
    std::string shown = name ? *name : "?";
    if (symbols.count(longest[i].second) != 0) shown = SymbolLabel(shown, kMostLabel);
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", shown);
  }
  return fmt::format("{} ranges on {} thread{} were recorded, most time in {}", ranges,
                     run.threads.size(), run.threads.size() == 1 ? "" : "s", text);
}

void AddUnseen(const Store& store, const RunData& run, const WindowTotals& totals, Report& report) {
  const auto say = [&report](std::string text) { report.unseen.push_back(std::move(text)); };
  if (run.pools.empty()) {
    say("no pool: no thread said which worker it is (poolscope_worker, or a mapping: --pools "
        "FILE)");
    if (std::string text = Recorded(store, run); !text.empty()) say(std::move(text));
  }
  for (const auto& [key, value] : run.settings) {
    if (!key.starts_with("unread.")) continue;
    say(
        fmt::format("what the job meant with '{}': a name of a pool or link is one word, a number "
                    "is whole",
                    value));
  }
  if (run.pools.size() == 1) say("one pool: nothing to balance and no traffic between pools");
  if (run.pools.size() > 1 && run.links.empty()) say("no link between pools (poolscope_link)");
  if (run.steps.empty()) say("no optimizer step (poolscope_step)");
  if (!run.pools.empty() && totals.window_ns == 0) say("no window: too short, or not collected");
  for (size_t i = 0; i < run.links.size(); ++i) {
    const LinkRow& link = run.links[i];
    if (link.from_pool.empty()) {
      say(fmt::format("what link {} joins (poolscope_link, or [[link]] of a mapping)", link.link));
    }
    for (const std::string& end : {link.from_pool, link.to_pool}) {
      if (end.empty()) continue;
      if (!run.pools.empty() && run.Pool(end) == nullptr) {
        say(fmt::format("link {} joins '{}', which is no pool of this run", link.link, end));
      }
    }
    const LinkTotals& total = totals.links[i];
    if (total.end_ns > total.begin_ns && total.transfers == 0) {
      say(fmt::format("no transfer on {}: its traffic is not known", link.link));
    }
    if (total.unattributed_share > kUnattributed) {
      say(fmt::format("why {} waited for {} {} of its time: those waits name no message",
                      link.to_pool, link.link, Percent(total.unattributed_share)));
    }
  }
}

// What was open on a lane is told with the lane's name: the communicator of an NCCL operation.
std::vector<OpenRangeRow> OpenRanges(const RunData& run) {
  std::vector<OpenRangeRow> ranges = run.open_ranges;
  for (OpenRangeRow& range : ranges) {
    if (range.tid < kFirstLaneThread) continue;
    const auto lane =
        std::find_if(run.threads.begin(), run.threads.end(), [&](const ThreadRow& thread) {
          return thread.session_id == range.session_id && thread.tid == range.tid;
        });
    if (lane != run.threads.end()) range.name += " on " + lane->name;
  }
  return ranges;
}

std::string Milliseconds(double seconds) {
  return seconds >= 1 ? fmt::format("{:.2f} s", seconds) : fmt::format("{:.1f} ms", seconds * 1e3);
}

std::string Verdict(const Report& report, const std::string& abstain) {
  if (!report.findings.empty() && report.findings[0].recommendation) {
    const Finding& first = report.findings[0];
    const Recommendation& change = *first.recommendation;
    return fmt::format("{}; {} should bring a step from {} to {} ({:+.0f} % throughput).",
                       first.summary, change.change, Milliseconds(change.baseline_step_seconds),
                       Milliseconds(change.predicted_step_seconds),
                       (change.predicted_speedup - 1) * 100);
  }
  if (report.pools.empty()) return "No pools were seen, so there is nothing to say about balance.";
  if (!report.findings.empty() && !report.replay_note.empty()) {
    return fmt::format("{}; nothing is recommended: {}.", report.findings[0].summary,
                       report.replay_note);
  }
  if (!report.findings.empty()) {
    return fmt::format("Nothing needs changing; noted: {}.", report.findings[0].summary);
  }
  if (report.steps == 0) return "No optimizer steps were seen, so no change can be judged.";
  if (!abstain.empty()) return fmt::format("Nothing can be judged: {}.", abstain);
  if (report.pools.size() == 1) {
    return fmt::format("One pool, busy {} of its time: nothing to balance, no traffic to judge.",
                       Percent(report.pools[0].busy_ratio));
  }
  double busiest = 0;
  for (const PoolReport& pool : report.pools) busiest = std::max(busiest, pool.busy_ratio);
  if (busiest < kIdle) {
    return fmt::format(
        "No rule found a cause, but even the busiest pool worked only {} of its time.",
        Percent(busiest));
  }
  return "Nothing is wrong: the pools are balanced and the links are fast enough.";
}

// From the first to the last of the windows summed; the analysed span where there is none.
std::pair<int64_t, int64_t> SpanOfWindows(const WindowTotals& totals, const AnalysedSpan& span) {
  int64_t begin = INT64_MAX;
  int64_t end = INT64_MIN;
  const auto extend = [&](const auto& each) {
    if (each.begin_ns == each.end_ns) return;
    begin = std::min(begin, each.begin_ns);
    end = std::max(end, each.end_ns);
  };
  for (const PoolTotals& pool : totals.pools) extend(pool);
  for (const LinkTotals& link : totals.links) extend(link);
  return begin < end ? std::pair{begin, end} : std::pair{span.begin_ns, span.end_ns};
}

}  // namespace

Result<Report> BuildReport(const Store& store, const std::string& run_id,
                           const ReportOptions& options) {
  Result<RunData> run = ReadRunData(store, run_id);
  if (!run) return run.error();
  const AnalysedSpan span = ChooseSpan(*run, options.live);
  Result<WindowTotals> totals = SumWindows(store, *run, span);
  if (!totals) return totals.error();

  Report report;
  report.run = run->run.run_id;
  report.host = run->run.host;
  report.command = run->run.command;
  report.start_ns = run->run.start_ns;
  report.duration_seconds =
      std::max(0.0, static_cast<double>(run->run.end_ns - run->run.start_ns) * 1e-9);
  report.analysed_begin_ns = span.begin_ns;
  report.analysed_end_ns = span.end_ns;
  std::tie(report.windows_begin_ns, report.windows_end_ns) = SpanOfWindows(*totals, span);
  AddPools(*run, *totals, report);
  AddLinks(*run, *totals, report);
  AddSteps(*run, span, report);
  AddUnseen(store, *run, *totals, report);
  Result<Unattributed> unattributed = FindUnattributed(store, *run);
  if (!unattributed) return unattributed.error();
  report.unattributed = std::move(*unattributed);
  Result<std::vector<DeviceReport>> devices = SumDevices(store, *run, span);
  if (!devices) return devices.error();
  report.devices = std::move(*devices);
  report.version_lag_mean = totals->lag_mean;
  report.version_lag_max = totals->lag_max;
  report.event_losses = run->losses;
  report.open_ranges = OpenRanges(*run);

  Advice advice;
  advice.replay_note = "the what-if was not run";
  if (options.what_if) {
    Result<WhatIf> what_if = PrepareWhatIf(store, *run, span, options.live);
    if (!what_if) return what_if.error();
    advice = Search(*what_if, options.live);
  }
  report.replay_error = advice.replay_error;
  report.replay_note = advice.replay_note;
  report.findings = RunRules({*run, span, *totals, advice});
  report.verdict = Verdict(report, span.abstain);
  report.verdict[0] =
      static_cast<char>(std::toupper(static_cast<unsigned char>(report.verdict[0])));
  return report;
}

}  // namespace poolscope
