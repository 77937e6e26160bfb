#include "tests/bench/synthetic_run.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace poolscope::bench {
namespace {

constexpr int64_t kWindowNs = 1'000'000'000;
int64_t WindowOf(int64_t ns) { return ns - ns % kWindowNs; }

// The first error of several calls.
class Calls {
 public:
  void operator()(const Status& status) {
    if (status_.ok() && !status.ok()) status_ = status;
  }
  template <typename T>
  T operator()(Result<T> result) {
    if (result.ok()) return *result;
    (*this)(Status(result.error()));
    return {};
  }
  Status status() const { return status_; }

 private:
  Status status_;
};

}  // namespace

SyntheticRun::SyntheticRun(Store& store, RunShape shape, const std::string& run_id)
    : store_(store),
      shape_(shape),
      run_id_(run_id),
      session_id_(run_id),
      random_(shape.seed),
      now_ns_(shape.start_ns) {}

Result<SyntheticRun::Thread> SyntheticRun::PutThread(int64_t tid, const std::string& name,
                                                     const std::string& pool, int64_t index) {
  Calls calls;
  Thread thread;
  thread.id = calls(store_.PutThread({0, session_id_, tid, name, pool, index}));
  thread.ranges = calls(store_.TrackId({0, run_id_, thread.id, 1, 0}));
  thread.marks = calls(store_.TrackId({0, run_id_, thread.id, 2, 0}));
  for (uint32_t counter : {gradients_.depth, weights_.depth, loss_, version_, tokens_}) {
    thread.counters[counter] = calls(store_.TrackId({0, run_id_, thread.id, 3, counter}));
  }
  thread.free_ns = shape_.start_ns;
  if (!calls.status().ok()) return calls.status().error();
  return thread;
}

Status SyntheticRun::PutNames() {
  Calls calls;
  const auto name = [&](const char* text) { return calls(store_.Intern(text)); };
  domain_ = name("poolscope");
  forward_ = name("forward");
  backward_ = name("backward");
  optimizer_ = name("optimizer");
  step_name_ = name("step");
  gradients_ = {
      "gradients", name("gradients"), name("gradients.depth"), &gradients_lane_, 0, {}, 0};
  weights_ = {"weights", name("weights"), name("weights.depth"), &weights_lane_, 0, {}, 0};
  loss_ = name("loss");
  version_ = name("update.version");
  tokens_ = name("tokens");
  for (uint32_t i = 0; i < shape_.layers; ++i) {
    layers_.push_back(name(("layer " + std::to_string(i)).c_str()));
  }
  const auto schema = [&](const char* text, std::vector<Store::SchemaField> fields) {
    const uint32_t id = name(text);
    calls(store_.PutSchema(id, fields));
    return id;
  };
  transfer_schema_ = schema("poolscope.transfer", {{"stage", 'u'},
                                                   {"source", 'u'},
                                                   {"destination", 'u'},
                                                   {"sequence", 'u'},
                                                   {"version", 'u'},
                                                   {"applied_version", 'u'},
                                                   {"raw_bytes", 'u'},
                                                   {"wire_bytes", 'u'},
                                                   {"step", 'u'},
                                                   {"micro_batch", 'u'},
                                                   {"codec", 's'}});
  work_schema_ = schema(
      "poolscope.work",
      {{"step", 'u'}, {"micro_batch", 'u'}, {"version", 'u'}, {"scope", 'u'}, {"cpu_ns", 'u'}});
  wait_schema_ = schema("poolscope.wait", {{"source", 'u'}, {"sequence", 'u'}});
  step_schema_ = schema(
      "poolscope.step",
      {{"step", 'u'}, {"version", 'u'}, {"tokens", 'u'}, {"micro_batches", 'u'}, {"loss", 'd'}});
  return calls.status();
}

Status SyntheticRun::PutRun() {
  Calls calls;
  const std::string command = "poolscope-trainer --mode disaggregated --sync --device emulated";
  calls(store_.Put(RunRow{run_id_, "synthetic", command, shape_.start_ns, shape_.start_ns, false}));
  calls(store_.Put(
      ProcessRow{session_id_, run_id_, "synthetic", command, 4242, 1, shape_.start_ns, 0, ""}));
  calls(PutNames());
  const auto pool = [&](const std::string& pool_name, uint32_t workers, int64_t first_tid,
                        std::vector<Thread>& threads) {
    calls(store_.Put(PoolRow{run_id_, pool_name, pool_name, workers}));
    for (uint32_t i = 0; i < workers; ++i) {
      calls(store_.Put(WorkerRow{run_id_, pool_name, i, session_id_, "emulated"}));
      threads.push_back(
          calls(PutThread(first_tid + i, pool_name + "/" + std::to_string(i), pool_name, i)));
    }
  };
  pool("compute", shape_.compute_workers, 5000, compute_);
  pool("update", shape_.update_workers, 6000, update_);
  gradients_lane_ = calls(PutThread(7000, "link/gradients/0", "", -1));
  weights_lane_ = calls(PutThread(7001, "link/weights/0", "", -1));
  gradients_.sequence.resize(shape_.compute_workers);
  weights_.sequence.resize(shape_.update_workers);
  gradients_.bytes = std::floor(shape_.gradient_bytes / shape_.update_workers);
  weights_.bytes = std::floor(shape_.weight_bytes / shape_.update_workers);
  calls(store_.Put(
      LinkRow{run_id_, "gradients", "compute", "update", int64_t{16} * shape_.update_workers, 1}));
  calls(store_.Put(
      LinkRow{run_id_, "weights", "update", "compute", int64_t{16} * shape_.compute_workers, 1}));
  const std::pair<const char*, std::string> settings[] = {
      {"trainer", "poolscope-trainer"},
      {"mode", "sync"},
      {"device", "emulated"},
      {"compute.workers", std::to_string(shape_.compute_workers)},
      {"update.workers", std::to_string(shape_.update_workers)},
      {"micro_batches", std::to_string(shape_.micro_batches)},
      {"lag_bound", "0"},
      {"stale", "wait"},
      {"gradients.depth", "16"},
      {"weights.depth", "16"},
      {"gradients.codec", "none"},
      {"weights.codec", "none"},
      {"codec.bf16.ratio", "0.5"},
      {"codec.bf16.encode_bytes_per_second", "5e10"},
      {"codec.bf16.decode_bytes_per_second", "5e10"}};
  for (const auto& [key, value] : settings) calls(store_.Put(SettingRow{run_id_, key, value}));
  return calls.status();
}

int64_t SyntheticRun::Jitter(double ms) {
  std::normal_distribution<double> normal(1.0, shape_.jitter);
  return static_cast<int64_t>(ms * 1e6 * std::max(0.2, normal(random_)));
}

Event SyntheticRun::Base(uint32_t name, Category category, int64_t start_ns, int64_t end_ns) const {
  Event event;
  event.start_ns = start_ns;
  event.duration_ns = end_ns - start_ns;
  event.name = name;
  event.domain = domain_;
  event.category = static_cast<uint32_t>(category);
  return event;
}

void SyntheticRun::Add(int64_t track, EventKind kind, Event event, uint32_t schema,
                       std::initializer_list<uint64_t> values) {
  EventBatch& batch = waiting_[track];
  event.kind = kind;
  if (schema != 0) {
    event.payload_offset = static_cast<uint32_t>(batch.words.size());
    event.payload_words = static_cast<uint16_t>(1 + values.size());
    batch.words.push_back(schema | static_cast<uint64_t>(values.size()) << 32);
    batch.words.insert(batch.words.end(), values);
  }
  batch.events.push_back(event);
  ++waiting_events_;
}

// The layers share the range, a little time left before, between and after them.
void SyntheticRun::Work(Thread& thread, uint32_t name, double ms, uint64_t micro_batch,
                        uint64_t scope) {
  const int64_t start = thread.free_ns + 400 + Jitter(0.002);
  const int64_t length = Jitter(ms);
  if (scope == 0 && shape_.layers > 0) {
    const int64_t part = length / shape_.layers;
    for (uint32_t i = 0; i < shape_.layers; ++i) {
      Event layer = Base(layers_[i], Category::kNone, start + i * part + part / 50, 0);
      layer.duration_ns = std::min(Jitter(static_cast<double>(part) / 1e6 * 0.9), part * 48 / 50);
      layer.domain = 0;
      layer.depth = 1;
      Add(thread.ranges, EventKind::kRange, layer, 0, {});
    }
  }
  Add(thread.ranges, EventKind::kRange, Base(name, Category::kWork, start, start + length),
      work_schema_,
      {static_cast<uint64_t>(step_), micro_batch, static_cast<uint64_t>(step_), scope, kNoValue});
  thread.free_ns = start + length;
}

void SyntheticRun::Stage(Thread& thread, Link& link, poolscope::Stage stage, const Message& message,
                         int64_t start_ns, int64_t end_ns, bool start_end) {
  Event event = Base(link.id, Category::kTransfer, start_ns, end_ns);
  if (start_end) event.flags = kEventStartEnd;
  const uint64_t step = static_cast<uint64_t>(step_);
  const uint64_t bytes = static_cast<uint64_t>(link.bytes);
  const bool gradient = &link == &gradients_;
  Add(thread.ranges, EventKind::kRange, event, transfer_schema_,
      {static_cast<uint64_t>(stage), message.source, message.destination, message.sequence,
       gradient ? step : step + 1, gradient && stage == Stage::kApply ? step : kNoValue, bytes,
       bytes, step, kNoValue, 0});
  LinkWindowRow& window = link_windows_[WindowOf(end_ns)][link.name];
  window.stage_ns[static_cast<size_t>(stage)] += end_ns - start_ns;
  if (stage == Stage::kWire) {
    window.transfers += 1;
    window.raw_bytes += static_cast<int64_t>(bytes);
    window.wire_bytes += static_cast<int64_t>(bytes);
  }
}

SyntheticRun::Message SyntheticRun::Send(Thread& sender, Link& link, uint64_t source,
                                         uint64_t destination) {
  Message message{source, destination, link.sequence[source]++, 0};
  const int64_t handed = sender.free_ns + 300 + Jitter(0.003);
  sender.free_ns = handed + 500;
  const int64_t taken = std::max(handed, link.lane_free_ns) + 1500 + Jitter(0.002);
  link.lane_free_ns = taken + Jitter(link.bytes / shape_.bandwidth * 1e3);
  message.arrived_ns = link.lane_free_ns + Jitter(shape_.latency_ms);
  Stage(*link.lane, link, Stage::kQueued, message, handed, taken, true);
  Stage(*link.lane, link, Stage::kWire, message, taken, message.arrived_ns, true);
  depth_changes_[&link].push_back({handed, 1, &sender});
  return message;
}

void SyntheticRun::Receive(Thread& receiver, const std::string& pool, uint64_t index, Link& link,
                           const Message& message) {
  if (message.arrived_ns > receiver.free_ns) {
    const int64_t start = receiver.free_ns + 200;
    const int64_t end = std::max(message.arrived_ns + Jitter(0.01), start + 1);
    Add(receiver.ranges, EventKind::kRange, Base(link.id, Category::kWaitLink, start, end),
        wait_schema_, {message.source, message.sequence});
    Spend(pool, index, State::kWaitLink, &link, start, end);
    receiver.free_ns = end;
  }
  depth_changes_[&link].push_back({receiver.free_ns, -1, &receiver});
  const int64_t start = receiver.free_ns + 300;
  receiver.free_ns = start + Jitter(0.05);
  Stage(receiver, link, Stage::kApply, message, start, receiver.free_ns);
  Spend(pool, index, State::kBusy, nullptr, start, receiver.free_ns);
}

void SyntheticRun::Sample(Thread& thread, uint32_t counter, int64_t at_ns, double value) {
  Event event = Base(counter, Category::kNone, at_ns, at_ns);
  event.value = std::bit_cast<uint64_t>(value);
  event.flags = kEventFloat;
  Add(thread.counters[counter], EventKind::kCounter, event, 0, {});
}

void SyntheticRun::SampleDepth(Link& link, std::vector<DepthChange>& changes) {
  std::stable_sort(changes.begin(), changes.end(),
                   [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
  int64_t depth = 0;
  for (const DepthChange& change : changes) {
    depth = std::max<int64_t>(depth + change.change, 0);
    Sample(*change.thread, link.depth, change.at_ns, static_cast<double>(depth));
    LinkWindowRow& window = link_windows_[WindowOf(change.at_ns)][link.name];
    window.depth_max = std::max(window.depth_max, static_cast<double>(depth));
    window.depth_mean = window.depth_max / 2;
  }
  changes.clear();
}

// Cuts the time at the windows' borders; all of a wait is put down to the wire.
void SyntheticRun::Spend(const std::string& pool, uint64_t index, State state, const Link* link,
                         int64_t start_ns, int64_t end_ns) {
  while (start_ns < end_ns) {
    const int64_t window = WindowOf(start_ns);
    const int64_t part = std::min(end_ns, window + kWindowNs) - start_ns;
    WorkerSlice& slice = windows_[window][{pool, index}];
    slice.state_ns[static_cast<size_t>(state)] += part;
    if (link != nullptr) {
      slice.links[link->name].wait_ns += part;
      slice.links[link->name].wire_ns += part;
    }
    start_ns += part;
  }
}

void SyntheticRun::Step() {
  std::vector<std::vector<Message>> to_update(shape_.update_workers);
  for (uint32_t i = 0; i < shape_.compute_workers; ++i) {
    Thread& worker = compute_[i];
    const int64_t start = worker.free_ns;
    for (uint64_t batch = i; batch < shape_.micro_batches; batch += shape_.compute_workers) {
      Work(worker, forward_, shape_.forward_ms, batch, 0);
      Work(worker, backward_, shape_.backward_ms, batch, 0);
    }
    Spend("compute", i, State::kBusy, nullptr, start, worker.free_ns);
  }
  // Who is ready first sends first.
  std::vector<uint32_t> order(shape_.compute_workers);
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return compute_[a].free_ns < compute_[b].free_ns; });
  for (uint32_t i : order) {
    for (uint32_t j = 0; j < shape_.update_workers; ++j) {
      to_update[j].push_back(Send(compute_[i], gradients_, i, j));
    }
  }
  std::vector<std::vector<Message>> to_compute(shape_.compute_workers);
  for (uint32_t j = 0; j < shape_.update_workers; ++j) {
    for (const Message& message : to_update[j]) {
      Receive(update_[j], "update", j, gradients_, message);
    }
    const int64_t start = update_[j].free_ns;
    Work(update_[j], optimizer_, shape_.optimizer_ms / shape_.update_workers, kNoValue, 1);
    Spend("update", j, State::kBusy, nullptr, start, update_[j].free_ns);
    if (j == 0) {
      const int64_t at = update_[0].free_ns + 150;
      const double loss = 2 + 3 * std::exp(-static_cast<double>(step_) / 2000) +
                          static_cast<double>(random_() % 1000) * 1e-5;
      const StepRow row{run_id_, step_, at, step_ + 1, 8192, shape_.micro_batches, loss};
      step_rows_.push_back(row);
      Add(update_[0].marks, EventKind::kMark, Base(step_name_, Category::kStep, at, at),
          step_schema_,
          {static_cast<uint64_t>(step_), static_cast<uint64_t>(step_ + 1), 8192,
           shape_.micro_batches, std::bit_cast<uint64_t>(loss)});
      Sample(update_[0], loss_, at + 100, loss);
      Sample(update_[0], version_, at + 200, static_cast<double>(step_ + 1));
      Sample(update_[0], tokens_, at + 300, 8192.0 * static_cast<double>(step_ + 1));
    }
  }
  for (uint32_t j = 0; j < shape_.update_workers; ++j) {
    for (uint32_t i = 0; i < shape_.compute_workers; ++i) {
      to_compute[i].push_back(Send(update_[j], weights_, j, i));
    }
  }
  for (uint32_t i = 0; i < shape_.compute_workers; ++i) {
    for (const Message& message : to_compute[i]) {
      Receive(compute_[i], "compute", i, weights_, message);
    }
    now_ns_ = std::max(now_ns_, compute_[i].free_ns);
  }
  SampleDepth(gradients_, depth_changes_[&gradients_]);
  SampleDepth(weights_, depth_changes_[&weights_]);
  ++step_;
}

void SyntheticRun::Make(int64_t events) {
  const int64_t until = waiting_events_ + events;
  while (waiting_events_ < until) Step();
  for (auto& [track, batch] : waiting_) {
    std::stable_sort(batch.events.begin(), batch.events.end(),
                     [](const Event& a, const Event& b) { return a.end_ns() < b.end_ns(); });
  }
}

Result<int64_t> SyntheticRun::Append() {
  Calls calls;
  for (auto& [track, batch] : waiting_) {
    calls(store_.Append(track, batch));
    batch.events.clear();
    batch.words.clear();
  }
  for (const StepRow& row : step_rows_) calls(store_.Put(row));
  step_rows_.clear();
  int64_t done = now_ns_;
  for (const auto* pool : {&compute_, &update_}) {
    for (const Thread& thread : *pool) done = std::min(done, thread.free_ns);
  }
  calls(PutWindows(WindowOf(done)));
  const int64_t events = waiting_events_;
  waiting_events_ = 0;
  if (!calls.status().ok()) return calls.status().error();
  return events;
}

Status SyntheticRun::PutWindows(int64_t before_ns) {
  Calls calls;
  while (!windows_.empty() && windows_.begin()->first < before_ns) {
    const int64_t start = windows_.begin()->first;
    std::map<std::string, PoolWindowRow> pools;
    std::map<std::string, int64_t> waited;
    for (auto& [worker, slice] : windows_.begin()->second) {
      const auto& [pool, index] = worker;
      int64_t idle = kWindowNs;
      for (const int64_t ns : slice.state_ns) idle -= ns;
      slice.state_ns[static_cast<size_t>(State::kIdle)] += idle;
      calls(store_.Put(WorkerWindowRow{run_id_, pool, static_cast<int64_t>(index), start, kWindowNs,
                                       slice.state_ns}));
      for (auto& [link, row] : slice.links) {
        row.run_id = run_id_;
        row.pool = pool;
        row.worker_index = static_cast<int64_t>(index);
        row.link = link;
        row.start_ns = start;
        row.window_ns = kWindowNs;
        waited[link] += row.wait_ns;
        calls(store_.Put(row));
      }
      PoolWindowRow& total = pools[pool];
      total.workers = pool == "compute" ? shape_.compute_workers : shape_.update_workers;
      total.busy_ratio += static_cast<double>(slice.state_ns[static_cast<size_t>(State::kBusy)]) /
                          kWindowNs / static_cast<double>(total.workers);
    }
    for (const auto& [pool, row] : pools) {
      calls(
          store_.Put(PoolWindowRow{run_id_, pool, start, kWindowNs, row.workers, row.busy_ratio}));
    }
    for (auto& [link, row] : link_windows_[start]) {
      row.run_id = run_id_;
      row.link = link;
      row.start_ns = start;
      row.window_ns = kWindowNs;
      const bool gradients = link == "gradients";
      const double senders = gradients ? shape_.compute_workers : shape_.update_workers;
      const double workers = shape_.compute_workers + shape_.update_workers;
      row.capacity = int64_t{16} * (gradients ? shape_.update_workers : shape_.compute_workers);
      row.traffic_share = std::min(
          1.0, static_cast<double>(row.stage_ns[static_cast<size_t>(poolscope::Stage::kWire)]) /
                   kWindowNs / senders);
      row.exposed_share = static_cast<double>(waited[link]) / kWindowNs / workers;
      calls(store_.Put(row));
    }
    link_windows_.erase(start);
    calls(store_.Put(VersionWindowRow{run_id_, start, kWindowNs, step_, 0, 0, 0}));
    windows_.erase(windows_.begin());
  }
  calls(store_.Put(RunRow{run_id_, "synthetic",
                          "poolscope-trainer --mode disaggregated --sync --device emulated",
                          shape_.start_ns, now_ns_, false}));
  return calls.status();
}

Status SyntheticRun::Finish() {
  Calls calls;
  calls(PutWindows(INT64_MAX));
  const std::string command = "poolscope-trainer --mode disaggregated --sync --device emulated";
  calls(store_.Put(RunRow{run_id_, "synthetic", command, shape_.start_ns, now_ns_, true}));
  calls(store_.Put(ProcessRow{session_id_, run_id_, "synthetic", command, 4242, 1, shape_.start_ns,
                              now_ns_, "exited"}));
  return calls.status();
}

}  // namespace poolscope::bench
