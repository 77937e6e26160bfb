#include "advisor/report_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

// docs/report.md documents every field, docs/report.schema.json is checked by a test.
namespace poolscope {
namespace {

using Json = nlohmann::ordered_json;

// JSON knows no NaN and no infinity: null.
Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json Number(const std::optional<double>& value) { return value ? Number(*value) : Json(nullptr); }
// 0 stands for what the job does not tell.
Json Told(double value) { return value > 0 ? Number(value) : Json(nullptr); }

Json Numbers(const std::map<std::string, double>& values) {
  Json object = Json::object();
  for (const auto& [name, value] : values) object[name] = Number(value);
  return object;
}

Json ToJson(const Recommendation& r) {
  Json json = {{"kind", r.kind}, {"change", r.change}, {"class", r.klass}};
  json["set"] = Json::object();
  for (const auto& [knob, value] : r.set) json["set"][knob] = value;
  json["baseline_step_seconds"] = Number(r.baseline_step_seconds);
  json["predicted_step_seconds"] = Number(r.predicted_step_seconds);
  json["interval"] = Json::array({Number(r.interval_low), Number(r.interval_high)});
  json["predicted_speedup"] = Number(r.predicted_speedup);
  json["predicted_tokens_per_second"] = Told(r.predicted_tokens_per_second);
  json["device_seconds_per_token"] = Told(r.device_seconds_per_token);
  json["pays_back_after_steps"] = Told(r.pays_back_after_steps);
  json["extrapolated"] = r.extrapolated;
  json["assumed"] = r.assumed;
  json["memory"] = MemoryAsJson(r.memory);
  json["apply"] = r.apply;
  return json;
}

Json ToJson(const Finding& finding) {
  Json json = {{"rule", finding.rule},
               {"severity", finding.severity},
               {"subject", finding.subject},
               {"summary", finding.summary}};
  json["evidence"] = Json::array();
  for (const Evidence& evidence : finding.evidence) {
    json["evidence"].push_back({{"text", evidence.text},
                                {"subject", evidence.subject},
                                {"begin_ns", evidence.begin_ns},
                                {"end_ns", evidence.end_ns},
                                {"numbers", Numbers(evidence.numbers)}});
  }
  if (finding.recommendation) {
    json["recommendation"] = ToJson(*finding.recommendation);
  } else {
    json["abstained"] = finding.abstained;
  }
  return json;
}

Json ToJson(const PoolReport& pool) {
  return {{"name", pool.name},
          {"role", pool.role},
          {"workers", pool.workers},
          {"busy_ratio", Number(pool.busy_ratio)},
          {"state_ratios", Numbers(pool.state_ratios)}};
}

Json ToJson(const LinkReport& link) {
  // Without a transfer nobody knows what one takes.
  const bool known = link.transfers > 0;
  const auto number = [known](double value) { return known ? Number(value) : Json(nullptr); };
  Json stages = Numbers(link.stage_seconds);
  for (auto& [stage, seconds] : stages.items()) seconds = known ? seconds : Json(nullptr);
  return {{"name", link.name},
          {"from", link.from},
          {"to", link.to},
          {"traffic_share", number(link.traffic_share)},
          {"exposed_share", number(link.exposed_share)},
          {"transfers", link.transfers},
          {"raw_bytes", link.raw_bytes},
          {"wire_bytes", link.wire_bytes},
          {"depth", number(link.depth)},
          {"capacity", link.capacity},
          {"transfer_seconds", number(link.transfer_seconds)},
          {"stage_seconds", std::move(stages)}};
}

Json ToJson(const DeviceReport& device) {
  const auto bytes = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"host", device.host},
          {"device", device.device},
          {"uuid", device.uuid},
          {"name", device.name},
          {"source", device.source},
          {"sm_ratio", Number(device.sm_ratio)},
          {"dram_ratio", Number(device.dram_ratio)},
          {"tensor_ratio", Number(device.tensor_ratio)},
          {"memory_used_bytes", bytes(device.memory_used_bytes)},
          {"memory_bytes", bytes(device.memory_bytes)}};
}

Json ToJson(const EventLossRow& loss) {
  return {
      {"cause", loss.cause},        {"place", loss.place},
      {"session", loss.session_id}, {"events", loss.events ? Json(*loss.events) : Json(nullptr)},
      {"first_ns", loss.first_ns},  {"last_ns", loss.last_ns}};
}

Json ToJson(const OpenRangeRow& range) {
  return {{"name", range.name},
          {"tid", range.tid},
          {"session", range.session_id},
          {"start_ns", range.start_ns},
          {"seen_ns", range.seen_ns}};
}

Json ToJson(const Unattributed::Thread& thread) {
  return {{"name", thread.name},     {"pid", thread.pid},         {"tid", thread.tid},
          {"ranges", thread.ranges}, {"seconds", thread.seconds}, {"share", Number(thread.share)}};
}

Json ToJson(const Unattributed::Range& range) {
  return {{"domain", range.domain},
          {"name", range.name},
          {"count", range.count},
          {"seconds", range.seconds},
          {"share", Number(range.share)}};
}

Json ToJson(const Unattributed::Inferred& inferred) {
  return {{"what", inferred.what}, {"how", inferred.how}};
}

template <typename T>
Json Array(const std::vector<T>& values) {
  Json array = Json::array();
  for (const T& value : values) array.push_back(ToJson(value));
  return array;
}

// Names come from the job: bytes that are no UTF-8 are replaced, never thrown over.
std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Json MemoryAsJson(const std::vector<MemoryEstimate>& memory) {
  Json array = Json::array();
  for (const MemoryEstimate& pool : memory) {
    array.push_back({{"pool", pool.pool},
                     {"needed_bytes", Number(pool.needed_bytes)},
                     {"used_bytes", Told(pool.used_bytes)},
                     {"memory_bytes", Told(pool.memory_bytes)},
                     {"memory_from", pool.memory_from},
                     {"basis", pool.basis}});
  }
  return array;
}

std::string FindingAsJson(const Finding& finding) { return Dump(ToJson(finding), -1); }

std::string ReportAsJson(const Report& report) {
  Json json = {{"schema", Report::kSchema},
               {"run", report.run},
               {"host", report.host},
               {"command", report.command},
               {"verdict", report.verdict},
               {"duration_seconds", Number(report.duration_seconds)},
               {"start_ns", report.start_ns},
               {"analysed_begin_ns", report.analysed_begin_ns},
               {"analysed_end_ns", report.analysed_end_ns},
               {"windows_begin_ns", report.windows_begin_ns},
               {"windows_end_ns", report.windows_end_ns},
               {"steps", report.steps},
               {"step_seconds", Number(report.step_seconds)},
               {"tokens_per_second", Number(report.tokens_per_second)}};
  json["pools"] = Array(report.pools);
  json["links"] = Array(report.links);
  json["devices"] = Array(report.devices);
  json["version_lag"] = {{"mean", Number(report.version_lag_mean)},
                         {"max", report.version_lag_max}};
  json["event_losses"] = Array(report.event_losses);
  json["open_ranges"] = Array(report.open_ranges);
  json["replay_error"] = Number(report.replay_error);
  json["replay_note"] = report.replay_note;
  json["findings"] = Array(report.findings);
  json["unattributed"] = {{"threads", Array(report.unattributed.threads)},
                          {"threads_share", Number(report.unattributed.threads_share)},
                          {"ranges", Array(report.unattributed.ranges)},
                          {"inferred", Array(report.unattributed.inferred)}};
  json["unseen"] = report.unseen;
  return Dump(json, 2) + "\n";
}

}  // namespace poolscope
