#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "advisor/pool_limits.h"
#include "advisor/report.h"

namespace poolscope {
namespace {

using Out = std::back_insert_iterator<std::string>;

constexpr size_t kMostCommand = 76;  // the JSON has all of it
constexpr size_t kMostListed = 8;    // event losses and open ranges listed one by one

std::string Time(double seconds) {
  if (seconds <= 0) return "-";
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 120) return fmt::format("{:.2f} s", seconds);
  const auto whole = static_cast<int64_t>(seconds);
  return whole < 7200 ? fmt::format("{} min {:02} s", whole / 60, whole % 60)
                      : fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string Bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

double Since(const Report& report, int64_t ns) {
  return static_cast<double>(ns - report.start_ns) * 1e-9;
}

// Control characters in names of the job would move the terminal's cursor.
std::string Plain(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

void Head(const Report& report, Out out) {
  fmt::format_to(out, "{}\n\n", Plain(report.verdict));
  std::string command = Plain(report.command);
  if (command.size() > kMostCommand) command = command.substr(0, kMostCommand) + " ...";
  fmt::format_to(out, "run {}  on {}  {}\n", report.run.substr(0, 8), Plain(report.host), command);
  fmt::format_to(out, "{}  {} steps", Time(report.duration_seconds), report.steps);
  if (report.step_seconds) fmt::format_to(out, "  median step {}", Time(*report.step_seconds));
  if (report.tokens_per_second) {
    fmt::format_to(out, "  {:.0f} tokens/s", *report.tokens_per_second);
  }
  if (report.version_lag_max > 0) {
    fmt::format_to(out, "  version lag {:.2f} (at most {})", report.version_lag_mean,
                   report.version_lag_max);
  }
  const auto span = [&report](int64_t begin_ns, int64_t end_ns) {
    return fmt::format("{:.2f} s to {:.2f} s", Since(report, begin_ns), Since(report, end_ns));
  };
  const std::string analysed = span(report.analysed_begin_ns, report.analysed_end_ns);
  const std::string windows = span(report.windows_begin_ns, report.windows_end_ns);
  fmt::format_to(out, "\nfigures are of {} after the start", analysed);
  if (windows != analysed) fmt::format_to(out, ", of pools and links of {}", windows);
  fmt::format_to(out, "\n");
}

void Pools(const Report& report, Out out) {
  if (report.pools.empty()) return;
  // Columns: the states that any pool was in, in the glossary's order but for `unknown`, the last.
  // Discarded work is part of busy; with that column left out a row adds up to 100 %.
  struct Column {
    std::string state, title;
    size_t width;
  };
  std::vector<Column> columns;
  const auto add = [&](State state) {
    const std::string name = StateName(state);
    const bool seen = std::any_of(report.pools.begin(), report.pools.end(), [&](const auto& pool) {
      const auto found = pool.state_ratios.find(name);
      return found != pool.state_ratios.end() && found->second >= 0.0005;
    });
    const std::string title = state == State::kBusyDiscarded ? "of it discarded" : name;
    if (seen) columns.push_back({name, title, std::max<size_t>(9, title.size() + 2)});
  };
  for (int i = 0; i < static_cast<int>(State::kCount); ++i) {
    const auto state = static_cast<State>(i);
    if (state != State::kBusy && state != State::kUnknown) add(state);
  }
  add(State::kUnknown);
  fmt::format_to(out, "\n{:<14}{:>8}{:>9}", "pool", "workers", "busy");
  for (const Column& column : columns) fmt::format_to(out, "{:>{}}", column.title, column.width);
  fmt::format_to(out, "\n");
  for (const PoolReport& pool : report.pools) {
    fmt::format_to(out, "{:<14}{:>8}{:>7.1f} %", Plain(pool.name), pool.workers,
                   pool.busy_ratio * 100);
    for (const Column& column : columns) {
      const auto found = pool.state_ratios.find(column.state);
      const double ratio = found == pool.state_ratios.end() ? 0 : found->second;
      fmt::format_to(out, "{:>{}.1f} %", ratio * 100, column.width - 2);
    }
    fmt::format_to(out, "\n");
  }
}

void Links(const Report& report, Out out) {
  if (report.links.empty()) return;
  fmt::format_to(out, "\n{:<14}{:<20}{:>9}{:>9}{:>11}{:>10}{:>11}\n", "link", "", "traffic",
                 "exposed", "transfers", "wire", "depth");
  for (const LinkReport& link : report.links) {
    if (link.transfers == 0) {
      fmt::format_to(out, "{:<14}{:<20}{:>9}{:>9}{:>11}\n", Plain(link.name),
                     Plain(link.from + " -> " + link.to), "-", "-", "none seen");
      continue;
    }
    fmt::format_to(out, "{:<14}{:<20}{:>7.1f} %{:>7.1f} %{:>11}{:>10}{:>6.1f} / {}\n",
                   Plain(link.name), Plain(link.from + " -> " + link.to), link.traffic_share * 100,
                   link.exposed_share * 100, link.transfers,
                   Bytes(static_cast<double>(link.wire_bytes)), link.depth, link.capacity);
    fmt::format_to(out, "{:<14}one transfer {}:", "", Time(link.transfer_seconds));
    for (const char* stage : {"queued", "encode", "wire", "decode", "apply"}) {
      const auto found = link.stage_seconds.find(stage);
      if (found != link.stage_seconds.end() && found->second >= 1e-6) {
        fmt::format_to(out, "  {} {}", stage, Time(found->second));
      }
    }
    fmt::format_to(out, "\n");
  }
}

void Devices(const Report& report, Out out) {
  if (report.devices.empty()) return;
  fmt::format_to(out, "\n{:<34}{:>9}{:>9}{:>9}{:>20}  {}\n", "device", "SM", "DRAM", "tensor",
                 "memory", "source");
  const auto ratio = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.1f} %", *value * 100) : std::string("-");
  };
  for (size_t i = 0; i < std::min(kMostListed, report.devices.size()); ++i) {
    const DeviceReport& device = report.devices[i];
    const auto bytes = [](const std::optional<int64_t>& value) {
      return value ? Bytes(static_cast<double>(*value)) : std::string("-");
    };
    fmt::format_to(
        out, "{:<34}{:>9}{:>9}{:>9}{:>20}  {}\n",
        Plain(fmt::format("{} {} {}", device.host, device.device, device.name)).substr(0, 33),
        ratio(device.sm_ratio), ratio(device.dram_ratio), ratio(device.tensor_ratio),
        fmt::format("{} / {}", bytes(device.memory_used_bytes), bytes(device.memory_bytes)),
        device.source);
  }
  if (report.devices.size() > kMostListed) {
    fmt::format_to(out, "   and {} more\n", report.devices.size() - kMostListed);
  }
}

void Change(const Recommendation& change, Out out) {
  fmt::format_to(out, "   change    {}  ({}{})\n", Plain(change.change), change.klass,
                 change.extrapolated ? ", extrapolated" : "");
  fmt::format_to(out, "   predicts  step {} -> {} [{} .. {}], {:.2f} x the speed",
                 Time(change.baseline_step_seconds), Time(change.predicted_step_seconds),
                 Time(change.interval_low), Time(change.interval_high), change.predicted_speedup);
  if (change.predicted_tokens_per_second > 0) {
    fmt::format_to(out, ", {:.0f} tokens/s", change.predicted_tokens_per_second);
  }
  fmt::format_to(out, "\n   apply     {}\n", Plain(change.apply));
  if (change.pays_back_after_steps > 0) {
    fmt::format_to(out, "   pays back a restart after {:.0f} steps\n",
                   change.pays_back_after_steps);
  }
  for (const MemoryEstimate& pool : change.memory) {
    fmt::format_to(out, "   memory    {}\n", Plain(MemoryAsText(pool)));
  }
  if (change.memory.empty()) {
    fmt::format_to(out, "   memory    not judged: of no device its memory is known\n");
  }
  for (const std::string& value : change.assumed) {
    fmt::format_to(out, "   assumed   {}\n", Plain(value));
  }
}

void Findings(const Report& report, Out out) {
  if (report.findings.empty()) {
    fmt::format_to(out, "\nno findings\n");
    return;
  }
  fmt::format_to(out, "\nfindings, by predicted gain\n");
  int number = 0;
  for (const Finding& finding : report.findings) {
    fmt::format_to(out, "\n{}. {} [{}] {}\n", ++number, finding.rule, finding.severity,
                   Plain(finding.summary));
    for (const Evidence& evidence : finding.evidence) {
      fmt::format_to(out, "   evidence  {}  ({:.2f} s .. {:.2f} s)\n", Plain(evidence.text),
                     Since(report, evidence.begin_ns), Since(report, evidence.end_ns));
    }
    if (finding.recommendation) {
      Change(*finding.recommendation, out);
    } else {
      fmt::format_to(out, "   advice    none: {}\n", Plain(finding.abstained));
    }
  }
}

void Losses(const Report& report, Out out) {
  if (!report.event_losses.empty()) fmt::format_to(out, "\nevent losses\n");
  size_t listed = 0;
  for (const EventLossRow& loss : report.event_losses) {
    if (listed++ == kMostListed) break;
    fmt::format_to(out, "   {:<18} {:>10} events  {}  {:.2f} s .. {:.2f} s\n", loss.cause,
                   loss.events ? std::to_string(*loss.events) : "unknown", Plain(loss.place),
                   Since(report, loss.first_ns), Since(report, loss.last_ns));
  }
  if (listed > kMostListed) {
    fmt::format_to(out, "   and {} more\n", report.event_losses.size() - kMostListed);
  }
  if (!report.open_ranges.empty()) fmt::format_to(out, "\nopen when their process died\n");
  listed = 0;
  for (const OpenRangeRow& range : report.open_ranges) {
    if (listed++ == kMostListed) break;
    fmt::format_to(out, "   {:<18} thread {}  since {:.2f} s, seen until {:.2f} s\n",
                   Plain(range.name), range.tid, Since(report, range.start_ns),
                   Since(report, range.seen_ns));
  }
  if (listed > kMostListed) {
    fmt::format_to(out, "   and {} more\n", report.open_ranges.size() - kMostListed);
  }
}

void WriteUnattributed(const Unattributed& found, Out out) {
  if (found.empty()) return;
  fmt::format_to(out, "\nunattributed\n");
  const auto list = [&](const auto& entries, const auto& write) {
    for (size_t i = 0; i < std::min(kMostListed, entries.size()); ++i) {
      fmt::format_to(out, "{}", i == 0 ? "" : ", ");
      write(entries[i]);
    }
    if (entries.size() > kMostListed) {
      fmt::format_to(out, " and {} more", entries.size() - kMostListed);
    }
    fmt::format_to(out, "\n");
  };
  if (!found.threads.empty()) {
    fmt::format_to(
        out, "   {} thread{} of no pool, {:.1f} % of all time in ranges: ", found.threads.size(),
        found.threads.size() == 1 ? "" : "s", found.threads_share * 100);
    list(found.threads, [&](const Unattributed::Thread& thread) {
      fmt::format_to(
          out, "{} ({})",
          thread.name.empty() ? fmt::format("thread {}", thread.tid) : Plain(thread.name),
          Time(thread.seconds));
    });
  }
  if (!found.ranges.empty()) {
    fmt::format_to(out, "   ranges on workers' threads that mean nothing: ");
    list(found.ranges, [&](const Unattributed::Range& range) {
      fmt::format_to(out, "{} ({:.1f} %)", Plain(range.name), range.share * 100);
    });
  }
  for (const Unattributed::Inferred& inferred : found.inferred) {
    fmt::format_to(out, "   inferred: {}: {}\n", Plain(inferred.what), Plain(inferred.how));
  }
}

}  // namespace

std::string ReportAsText(const Report& report) {
  std::string text;
  const Out out = std::back_inserter(text);
  Head(report, out);
  Pools(report, out);
  Links(report, out);
  Devices(report, out);
  Findings(report, out);
  Losses(report, out);
  if (!report.replay_note.empty()) {
    fmt::format_to(out, "\nNothing is predicted: {}.\n", Plain(report.replay_note));
  } else if (report.replay_error) {
    fmt::format_to(out, "\nThe what-if replayed steps it had not seen within {:.1f} %.\n",
                   *report.replay_error * 100);
  }
  WriteUnattributed(report.unattributed, out);
  if (!report.unseen.empty()) fmt::format_to(out, "\nnot seen\n");
  for (const std::string& what : report.unseen) fmt::format_to(out, "   {}\n", Plain(what));
  return text;
}

}  // namespace poolscope
