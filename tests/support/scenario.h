#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

// A synchronous disaggregated run described in a few numbers, and its timeline. The timeline is a
// recurrence (at its hand-over a message's whole way is known), not an event simulation: expected
// results in the advisor's tests do not come from the model under test.
namespace poolscope::testing {

struct ScenarioLink {
  double bandwidth = 1e9;  // bytes/s
  double latency_ms = 0;
  int depth = 2;       // messages per receiver
  double bytes = 1e6;  // of the whole model
};

struct Scenario {
  int compute = 4, update = 2, micro_batches = 8, steps = 60;
  double forward_ms = 2, backward_ms = 4;
  double update_ms = 8;  // of the whole pool
  ScenarioLink gradients, weights;
  bool probe = true;        // small messages before the first step
  bool codec_probe = true;  // settings that say what bf16 costs
  bool staged = true;       // queued stages are recorded
  bool told_steps = true;   // transfers say their step
  bool marked_steps = true;
  double checkpoint_ms = 0;                     // of every update worker after each update
  std::string checkpoint = "checkpoint_write";  // what it is called
  double jitter = 0;                            // of every operation, relative, uniform
  bool lossy = false;  // events are missing, between these shares of the run
  double loss_from = 0, loss_to = 1;
  std::optional<int64_t> lost_events;
  std::map<std::string, std::string> settings;  // beside those that follow from the rest
};
Scenario ParseScenario(const nlohmann::json& json);

struct TimedMessage {
  int source, destination;
  uint64_t sequence;
  int step;  // -1: a probe
  double bytes;
  double handed_over, wire_start, arrival, taken;  // ns since the start
};
enum class SpanKind { kForward, kBackward, kOptimizer, kOtherWork, kWait, kBlocked };
struct TimedSpan {
  bool compute;
  int worker;
  SpanKind kind;
  double begin, end;
  int step, micro_batch;  // micro_batch -1: none
  int message;            // kWait: index of the message that ended it, in the link's list
};
struct Timeline {
  std::vector<TimedSpan> spans;
  std::vector<TimedMessage> gradients, weights;
  std::vector<double> step_ends;
};
Timeline Play(const Scenario& scenario);

// Writes the run with windows of 1 s into a new store at `path`. Empty, or what failed.
std::string WriteStore(const Scenario& scenario, const std::string& path);

// The mean time of a step once warm.
double StepSeconds(const Timeline& timeline);

}  // namespace poolscope::testing
