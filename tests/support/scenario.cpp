#include "tests/support/scenario.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

namespace poolscope::testing {
namespace {

constexpr double kMs = 1e6;

void ReadLink(const nlohmann::json& json, const char* name, ScenarioLink& link) {
  if (!json.contains(name)) return;
  const auto& from = json.at(name);
  link.bandwidth = from.value("bandwidth", link.bandwidth);
  link.latency_ms = from.value("latency_ms", link.latency_ms);
  link.depth = from.value("depth", link.depth);
  link.bytes = from.value("bytes", link.bytes);
}

// One direction of traffic: senders hand over one message to each receiver, in turn.
class Channel {
 public:
  Channel(const ScenarioLink& link, int senders, int receivers, std::vector<TimedMessage>& messages)
      : link_(link), taken_(static_cast<size_t>(receivers)), messages_(messages) {
    sequence_.assign(static_cast<size_t>(senders), 0);
  }

  // When the next message to the receiver can be handed over: a slot is free again when the one
  // `depth` messages before it has been taken.
  double SlotFree(int receiver) const {
    const auto& taken = taken_[static_cast<size_t>(receiver)];
    const auto depth = static_cast<size_t>(link_.depth);
    return taken.size() < depth ? 0 : taken[taken.size() - depth];
  }

  size_t HandOver(int source, int destination, int step, double bytes, double at,
                  double receiver_free) {
    TimedMessage m{
        source, destination, sequence_[static_cast<size_t>(source)]++, step, bytes, at, 0, 0, 0};
    m.wire_start = std::max(at, lane_free_);
    lane_free_ = m.wire_start + bytes * 1e9 / link_.bandwidth;
    m.arrival = lane_free_ + link_.latency_ms * kMs;
    auto& taken = taken_[static_cast<size_t>(destination)];
    m.taken = std::max({m.arrival, receiver_free, taken.empty() ? 0 : taken.back()});
    taken.push_back(m.taken);
    messages_.push_back(m);
    return messages_.size() - 1;
  }

  uint64_t HandedTo(int destination) const {
    return taken_[static_cast<size_t>(destination)].size();
  }

 private:
  const ScenarioLink& link_;
  double lane_free_ = 0;
  std::vector<std::vector<double>> taken_;  // by receiver, in order
  std::vector<uint64_t> sequence_;
  std::vector<TimedMessage>& messages_;
};

class Player {
 public:
  explicit Player(const Scenario& s)
      : s_(s),
        gradients_(s.gradients, s.compute, s.update, line_.gradients),
        weights_(s.weights, s.update, s.compute, line_.weights) {}

  Timeline Play() {
    std::vector<double> compute(static_cast<size_t>(s_.compute), 5 * kMs);
    std::vector<double> update(static_cast<size_t>(s_.update), 5 * kMs);
    if (s_.probe) {
      for (int i = 0; i < 3; ++i) {
        gradients_.HandOver(0, 0, -1, 1024, i * 0.1 * kMs, 0);
        weights_.HandOver(0, 0, -1, 1024, i * 0.1 * kMs, 0);
      }
      const double over = std::max(line_.gradients.back().taken, line_.weights.back().taken);
      for (auto* pool : {&compute, &update}) {
        for (double& at : *pool) at = std::max(at, over + kMs);
      }
    }
    for (int step = 0; step < s_.steps; ++step) Step(step, compute, update);
    return std::move(line_);
  }

 private:
  double Jitter(double ms) {
    if (s_.jitter <= 0) return ms * kMs;
    return ms * kMs * std::uniform_real_distribution<>(1 - s_.jitter, 1 + s_.jitter)(random_);
  }
  void Add(bool compute, size_t worker, SpanKind kind, double begin, double end, int step,
           int micro_batch = -1, int message = -1) {
    if (end <= begin) return;
    line_.spans.push_back(
        {compute, static_cast<int>(worker), kind, begin, end, step, micro_batch, message});
  }

  // All senders are ready at their times; who can hand over first does. The times of the last
  // message each receiver takes, and when each sender is done.
  void Exchange(bool from_compute, int step, std::vector<double>& senders, size_t sending,
                std::vector<double>& receivers) {
    Channel& channel = from_compute ? gradients_ : weights_;
    const ScenarioLink& link = from_compute ? s_.gradients : s_.weights;
    const std::vector<TimedMessage>& list = from_compute ? line_.gradients : line_.weights;
    std::vector<size_t> next(senders.size(), 0);
    std::vector<std::vector<size_t>> got(receivers.size());
    for (size_t left = sending * receivers.size(); left > 0; --left) {
      size_t who = 0;
      double when = std::numeric_limits<double>::max();
      for (size_t i = 0; i < sending; ++i) {
        if (next[i] == receivers.size()) continue;
        const double at = std::max(senders[i], channel.SlotFree(static_cast<int>(next[i])));
        if (at < when) {
          when = at;
          who = i;
        }
      }
      Add(from_compute, who, SpanKind::kBlocked, senders[who], when, step);
      const size_t to = next[who]++;
      senders[who] = when;
      got[to].push_back(channel.HandOver(static_cast<int>(who), static_cast<int>(to), step,
                                         link.bytes / s_.update, when, receivers[to]));
    }
    for (size_t r = 0; r < receivers.size(); ++r) {
      double since = receivers[r];
      for (size_t m : got[r]) {
        Add(!from_compute, r, SpanKind::kWait, since, list[m].taken, step, -1, static_cast<int>(m));
        since = list[m].taken;
      }
      receivers[r] = since;
    }
  }

  void Step(int step, std::vector<double>& compute, std::vector<double>& update) {
    for (size_t i = 0; i < compute.size(); ++i) {
      for (int m = static_cast<int>(i); m < s_.micro_batches; m += s_.compute) {
        const double forward = compute[i] + Jitter(s_.forward_ms);
        Add(true, i, SpanKind::kForward, compute[i], forward, step, m);
        compute[i] = forward + Jitter(s_.backward_ms);
        Add(true, i, SpanKind::kBackward, forward, compute[i], step, m);
      }
    }
    const auto sending = static_cast<size_t>(std::min(s_.compute, s_.micro_batches));
    // Receivers of weights wait from the time at which they have sent.
    Exchange(true, step, compute, sending, update);
    for (size_t j = 0; j < update.size(); ++j) {
      const double begin = update[j];
      update[j] += Jitter(s_.update_ms / s_.update);
      Add(false, j, SpanKind::kOptimizer, begin, update[j], step);
      Add(false, j, SpanKind::kOtherWork, update[j], update[j] + s_.checkpoint_ms * kMs, step);
      update[j] += s_.checkpoint_ms * kMs;
    }
    line_.step_ends.push_back(update[0]);
    Exchange(false, step, update, update.size(), compute);
  }

  const Scenario& s_;
  Timeline line_;
  Channel gradients_, weights_;
  std::mt19937_64 random_{7};
};

}  // namespace

Scenario ParseScenario(const nlohmann::json& json) {
  Scenario s;
  s.compute = json.value("compute", s.compute);
  s.update = json.value("update", s.update);
  s.micro_batches = json.value("micro_batches", s.micro_batches);
  s.steps = json.value("steps", s.steps);
  s.forward_ms = json.value("forward_ms", s.forward_ms);
  s.backward_ms = json.value("backward_ms", s.backward_ms);
  s.update_ms = json.value("update_ms", s.update_ms);
  s.probe = json.value("probe", s.probe);
  s.codec_probe = json.value("codec_probe", s.codec_probe);
  s.staged = json.value("staged", s.staged);
  s.marked_steps = json.value("marked_steps", s.marked_steps);
  s.checkpoint_ms = json.value("checkpoint_ms", s.checkpoint_ms);
  s.checkpoint = json.value("checkpoint", s.checkpoint);
  s.jitter = json.value("jitter", s.jitter);
  if (json.contains("loss")) {
    const auto& loss = json.at("loss");
    s.lossy = true;
    s.loss_from = loss.value("from", s.loss_from);
    s.loss_to = loss.value("to", s.loss_to);
    if (loss.contains("events")) s.lost_events = loss.at("events").get<int64_t>();
  }
  ReadLink(json, "gradients", s.gradients);
  ReadLink(json, "weights", s.weights);
  return s;
}

Timeline Play(const Scenario& scenario) { return Player(scenario).Play(); }

double StepSeconds(const Timeline& timeline) {
  const size_t first = timeline.step_ends.size() / 3;
  return (timeline.step_ends.back() - timeline.step_ends[first]) * 1e-9 /
         static_cast<double>(timeline.step_ends.size() - 1 - first);
}

}  // namespace poolscope::testing
