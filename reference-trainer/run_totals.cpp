#include "reference-trainer/run_totals.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace poolscope::trainer {

namespace {

std::string TextOf(const FetchTotals& fetch) {
  std::string text = fmt::format(
      "blocks: {} there, {} waited for, {} asked for again, at most {} on a compute worker\n",
      fetch.hits, fetch.misses, fetch.asked_again, fetch.most_resident);
  text += "served by update worker:";
  for (const auto& server : fetch.servers) {
    text +=
        fmt::format(" {} ({:.4g} MB)", server.requests, static_cast<double>(server.bytes) / 1e6);
  }
  text += "\nhottest:";
  for (const auto& group : fetch.hottest) {
    text += fmt::format(" {} {:.1f} ({} uses)", group.name, group.score, group.uses);
  }
  return text + "\n";
}

std::string JsonOf(const FetchTotals& fetch) {
  std::vector<std::string> servers, hottest;
  for (const auto& server : fetch.servers) {
    servers.push_back(
        fmt::format("{{\"requests\":{},\"bytes\":{}}}", server.requests, server.bytes));
  }
  for (const auto& group : fetch.hottest) {
    hottest.push_back(fmt::format("{{\"block\":\"{}\",\"uses\":{},\"score\":{:.6g}}}", group.name,
                                  group.uses, group.score));
  }
  return fmt::format(
      ",\"fetch\":{{\"hits\":{},\"misses\":{},\"asked_again\":{},\"most_resident\":{},"
      "\"served\":[{}],\"hottest\":[{}]}}",
      fetch.hits, fetch.misses, fetch.asked_again, fetch.most_resident, fmt::join(servers, ","),
      fmt::join(hottest, ","));
}

// Visits the links that met faults.
template <typename F>
void ForFaults(const RunTotals& totals, const F& visit) {
  const auto look = [&](const char* link, const FaultCounts& faults) {
    if (faults.losses + faults.corruptions + faults.repeats + faults.retries > 0) {
      visit(link, faults);
    }
  };
  look("gradients", totals.gradients.faults);
  look("weights", totals.weights.faults);
  look("requests", totals.requests.faults);
}

std::string TextOf(const std::vector<uint64_t>& tokens) {
  const auto sum = static_cast<double>(std::accumulate(tokens.begin(), tokens.end(), 0ULL));
  if (sum == 0) return "";
  std::string text = "experts, share of tokens:";
  for (const uint64_t each : tokens) {
    text += fmt::format(" {:.1f} %", 100 * static_cast<double>(each) / sum);
  }
  return text + "\n";
}

}  // namespace

std::string Text(const RunTotals& totals) {
  std::string text = TextOf(totals.expert_tokens);
  ForFaults(totals, [&](const char* link, const FaultCounts& faults) {
    text += fmt::format(
        "{}: {} blocks sent again ({:.4g} MB), {} damaged, {} duplicates, {} messages lost\n", link,
        faults.retries, static_cast<double>(faults.retried_bytes) / 1e6, faults.corrupt,
        faults.duplicates, faults.lost);
  });
  if (totals.side_work_slices > 0) {
    text += fmt::format("slices of side work: {}\n", totals.side_work_slices);
  }
  if (const auto& [count, steps] = totals.restarts; count > 0) {
    text += fmt::format("restarts of update workers: {}, steps done again: {}\n", count, steps);
  }
  return text + (totals.fetch ? TextOf(*totals.fetch) : "");
}

std::string Json(const RunTotals& totals) {
  std::string json;
  if (!totals.expert_tokens.empty()) {
    json += fmt::format(",\"expert_tokens\":[{}]", fmt::join(totals.expert_tokens, ","));
  }
  std::string links;
  ForFaults(totals, [&](const char* link, const FaultCounts& faults) {
    links += fmt::format(
        "{}\"{}\":{{\"retries\":{},\"retried_bytes\":{},\"corrupt\":{},\"duplicates\":{},"
        "\"lost\":{}}}",
        links.empty() ? "" : ",", link, faults.retries, faults.retried_bytes, faults.corrupt,
        faults.duplicates, faults.lost);
  });
  if (!links.empty()) json += ",\"faults\":{" + links + "}";
  if (totals.side_work_slices > 0) {
    json += fmt::format(",\"side_work_slices\":{}", totals.side_work_slices);
  }
  if (const auto& [count, steps] = totals.restarts; count > 0) {
    json += fmt::format(",\"restarts\":{},\"redone_steps\":{}", count, steps);
  }
  return json + (totals.fetch ? JsonOf(*totals.fetch) : "");
}

}  // namespace poolscope::trainer
