#include "advisor/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>
#include <tuple>

namespace poolscope {
namespace {

constexpr size_t kMostSamples = 400;  // of one operation and worker; more add nothing
constexpr double kLeastStaged = 0.9;  // of the transfers must show queued and wire
// Catalogue: bf16 halves fp32; a core converts some gigabytes a second.
constexpr double kCatalogueBytesPerSecond = 4e9;

struct Window {
  int64_t begin_ns, end_ns;
  const std::vector<std::pair<int64_t, int64_t>>& phases;

  bool Holds(int64_t start, int64_t end) const {
    if (start < begin_ns || end > end_ns) return false;
    return std::none_of(phases.begin(), phases.end(), [&](const auto& phase) {
      return start < phase.second && end > phase.first;
    });
  }
};

// Unmarked time before each of a worker's ranges: (range, gap).
template <typename Visit>
void VisitGaps(const std::vector<OwnRange>& ranges, const Window& window, const Visit& visit) {
  int64_t last_end = INT64_MIN;
  for (const OwnRange& range : ranges) {
    if (last_end != INT64_MIN && window.Holds(range.start_ns, range.end_ns)) {
      visit(range, static_cast<double>(std::max<int64_t>(0, range.start_ns - last_end)));
    }
    last_end = std::max(last_end, range.end_ns);
  }
}

double MedianGap(const EventRecords& records, int pool, const Window& window, uint32_t category,
                 uint32_t name, int stage_from, int stage_to) {
  std::vector<double> gaps;
  for (const auto& worker : records.own[static_cast<size_t>(pool)]) {
    VisitGaps(worker, window, [&](const OwnRange& range, double gap) {
      if (range.category != category || (name != 0 && range.name != name)) return;
      if (range.stage >= stage_from && range.stage <= stage_to) gaps.push_back(gap);
    });
  }
  return Median(std::move(gaps));
}

struct Part {  // one operation, summed over its ranges within a micro-batch or step
  double ns = 0, cpu_ns = 0;
  bool cpu_known = true;
};

struct Gathered {
  std::map<std::pair<int, std::tuple<uint64_t, uint64_t>>, Part> parts;  // worker, (step, batch)
  uint64_t scope = kNoValue;
  int64_t first_offset_ns = 0;  // orders the operations
  bool in_micro_batch = false;
};

// Values longer than that many medians are stalls of the machine, not of the operation: cut.
constexpr double kStallMedians = 20;

Samples Thin(std::vector<std::vector<double>> by_worker) {
  Samples samples;
  std::vector<double> every;
  for (const auto& own : by_worker) every.insert(every.end(), own.begin(), own.end());
  const double longest = kStallMedians * Median(every);
  for (auto& own : by_worker) {
    for (double& value : own) value = longest > 0 ? std::min(value, longest) : value;
  }
  for (std::vector<double>& own : by_worker) {
    std::vector<double> kept;
    const size_t stride = std::max<size_t>(1, own.size() / kMostSamples);
    for (size_t i = 0; i < own.size(); i += stride) kept.push_back(own[i]);
    samples.all.insert(samples.all.end(), kept.begin(), kept.end());
    samples.by_worker.push_back(std::move(kept));
  }
  return samples;
}

Operation MakeOperation(const Gathered& gathered, int workers, std::string name, double gap_ns) {
  Operation operation;
  operation.name = std::move(name);
  operation.gap_ns = gap_ns;
  operation.scope = gathered.scope == 0   ? OperationScope::kPerMicroBatch
                    : gathered.scope == 1 ? OperationScope::kPerShard
                                          : OperationScope::kFixed;
  if (gathered.in_micro_batch) operation.scope = OperationScope::kPerMicroBatch;
  double ns = 0;
  double cpu_ns = 0;
  bool cpu_known = true;
  for (const auto& [key, part] : gathered.parts) {
    ns += part.ns;
    cpu_ns += part.cpu_ns;
    cpu_known &= part.cpu_known;
  }
  // Mostly computing: its wall time depends on who else computes, its CPU time does not.
  operation.on_cores = cpu_known && ns > 0 && cpu_ns > 0.3 * ns;
  std::vector<std::vector<double>> by_worker(static_cast<size_t>(workers));
  for (const auto& [key, part] : gathered.parts) {
    const auto worker = static_cast<size_t>(key.first);
    if (worker >= by_worker.size()) continue;
    by_worker[worker].push_back(operation.on_cores ? part.cpu_ns : part.ns);
  }
  if (!gathered.in_micro_batch) {
    // An operation that only some workers make costs the others nothing.
    for (auto& own : by_worker) {
      if (own.empty()) own.push_back(0);
    }
  }
  operation.samples = Thin(std::move(by_worker));
  return operation;
}

PoolModel CalibratePool(const RunData& run, const EventRecords& records, int pool,
                        const Window& window) {
  PoolModel model;
  const PoolRow& row = run.pools[static_cast<size_t>(pool)];
  model.name = row.pool;
  model.workers = static_cast<int>(std::max<int64_t>(1, row.workers));
  model.calibrated_workers = model.workers;
  std::map<uint32_t, Gathered> operations;
  std::map<std::tuple<int, uint64_t, uint64_t>, int64_t> first_start;
  for (const WorkRecord& work : records.work) {
    if (work.pool != pool || !window.Holds(work.start_ns, work.end_ns)) continue;
    Gathered& gathered = operations[work.name];
    const auto unit = std::tuple(work.worker, work.step, work.micro_batch);
    const auto [first, is_first] = first_start.emplace(unit, work.start_ns);
    if (gathered.parts.empty()) {
      gathered.first_offset_ns = work.start_ns - first->second;
      gathered.scope = work.scope;
      gathered.in_micro_batch =
          work.micro_batch != kNoValue && (work.scope == 0 || work.scope == kNoValue);
      if (work.scope == kNoValue && !gathered.in_micro_batch) gathered.scope = 2;
    }
    Part& part = gathered.parts[{work.worker, {work.step, work.micro_batch}}];
    part.ns += static_cast<double>(work.end_ns - work.start_ns);
    part.cpu_known &= work.cpu_ns >= 0;
    part.cpu_ns += static_cast<double>(std::max<int64_t>(0, work.cpu_ns));
  }
  std::vector<std::pair<uint32_t, const Gathered*>> order;
  order.reserve(operations.size());
  for (const auto& [name, gathered] : operations) order.emplace_back(name, &gathered);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.second->first_offset_ns < b.second->first_offset_ns;
  });
  for (const auto& [name, gathered] : order) {
    const double gap =
        MedianGap(records, pool, window, static_cast<uint32_t>(Category::kWork), name, -1, -1);
    Operation operation = MakeOperation(*gathered, model.workers, records.Name(name), gap);
    (gathered->in_micro_batch ? model.micro_batch : model.step).push_back(std::move(operation));
  }
  return model;
}

double StageNsPerByte(const std::vector<TransferRecord>& transfers, int stage) {
  std::vector<double> values;
  for (const TransferRecord& t : transfers) {
    if (!t.stage(stage).seen() || t.raw_bytes <= 0 || t.step == kNoValue) continue;
    values.push_back(static_cast<double>(t.stage(stage).end_ns - t.stage(stage).start_ns) /
                     static_cast<double>(t.raw_bytes));
  }
  return Median(std::move(values));
}

Codec ProbedBf16(const RunData& run, const std::string& link, std::vector<std::string>& assumed) {
  Codec codec;
  codec.name = "bf16";
  const auto ratio = run.Number("codec.bf16.ratio");
  const auto encode = run.Number("codec.bf16.encode_bytes_per_second");
  const auto decode = run.Number("codec.bf16.decode_bytes_per_second");
  codec.ratio = ratio && *ratio > 0 && *ratio <= 1 ? *ratio : 0.5;
  const auto ns_per_byte = [](const std::optional<double>& speed) {
    return 1e9 / (speed && *speed > 0 ? *speed : kCatalogueBytesPerSecond);
  };
  codec.encode_ns_per_byte = ns_per_byte(encode);
  codec.decode_ns_per_byte = ns_per_byte(decode);
  if (!ratio || !encode || !decode) {
    codec.assumed = true;
    assumed.push_back(fmt::format("{}: bf16 halves the bytes at {:.0f} GB/s (catalogue)", link,
                                  kCatalogueBytesPerSecond / 1e9));
  }
  return codec;
}

struct LinkInput {
  const RunData& run;
  const EventRecords& records;
  const Window& window;
  const Roles& roles;
};

Result<LinkModel> CalibrateLink(const LinkInput& in, int link, int from, int to, LinkFit& fit,
                                std::vector<std::string>& assumed) {
  const LinkRow& row = in.run.links[static_cast<size_t>(link)];
  const double receivers =
      std::max<double>(1, double(in.run.pools[static_cast<size_t>(to)].workers));
  LinkModel model;
  model.name = row.link;
  model.lanes = static_cast<int>(std::max<int64_t>(1, row.lanes));
  const auto depth = in.run.Number(row.link + ".depth");
  model.depth = static_cast<int>(depth ? *depth : static_cast<double>(row.capacity) / receivers);
  if (model.depth < 1) {
    model.depth = 2;
    assumed.push_back(row.link + ": buffers of 2 messages");
  }

  std::vector<TransferRecord> own;     // of the window, and the probes
  std::vector<TransferRecord> inside;  // of the window
  size_t staged = 0;
  bool of_no_step = false;
  for (const TransferRecord& t : in.records.transfers) {
    if (t.link != link) continue;
    const bool probe = t.step == kNoValue;
    const StageTime& at = t.stage(2).seen() ? t.stage(2) : t.stage(0);
    const bool held = at.seen() && in.window.Holds(at.start_ns, at.end_ns);
    if (!probe && !held) continue;
    own.push_back(t);
    of_no_step = of_no_step || (probe && held);
    if (probe) continue;
    inside.push_back(t);
    staged += t.stage(0).seen() && t.stage(2).seen();
  }
  if (inside.empty() && of_no_step) {
    return Error{"the transfers on link " + row.link + " do not say their step"};
  }
  if (inside.empty()) return Error{"no transfer on link " + row.link + " was seen"};
  if (static_cast<double>(staged) < kLeastStaged * static_cast<double>(inside.size())) {
    return Error{
        fmt::format("only {} of {} transfers on link {} show both their queued and their "
                    "wire stage, without which link and pools cannot be told apart",
                    staged, inside.size(), row.link)};
  }
  fit = FitLink(own, model.lanes);
  model.ns_per_byte = fit.ns_per_byte;
  model.latency_ns = fit.latency_ns;

  double raw = 0;
  double wire = 0;
  for (const TransferRecord& t : inside) {
    raw += static_cast<double>(t.raw_bytes);
    wire += static_cast<double>(t.wire_bytes);
  }
  const int shards = static_cast<int>(
      std::max<int64_t>(1, in.run.pools[static_cast<size_t>(in.roles.update)].workers));
  model.raw_bytes = raw / static_cast<double>(inside.size()) * shards;
  model.bf16 = ProbedBf16(in.run, row.link, assumed);
  model.codec.name = in.run.Text(row.link + ".codec", inside.front().codec == 0 ? "none" : "other");
  if (model.codec.name != "none") {
    model.codec.ratio = raw > 0 ? wire / raw : 1;
    model.codec.encode_ns_per_byte = StageNsPerByte(inside, 1);
    model.codec.decode_ns_per_byte = StageNsPerByte(inside, 3);
    if (model.codec.name == "bf16") model.bf16 = model.codec;
  }
  model.apply_ns_per_byte = StageNsPerByte(inside, 4);
  constexpr auto kTransfer = static_cast<uint32_t>(Category::kTransfer);
  model.hand_over_ns = MedianGap(in.records, from, in.window, kTransfer, 0, 0, 0);
  model.take_ns = MedianGap(in.records, to, in.window, kTransfer, 0, 3, 4);

  std::map<std::pair<uint64_t, uint64_t>, int64_t> arrival;
  for (const TransferRecord& t : inside) arrival[{t.source, t.sequence}] = t.stage(2).end_ns;
  std::vector<double> wakes;
  for (const WaitRecord& wait : in.records.waits) {
    if (wait.link != link || !in.window.Holds(wait.start_ns, wait.end_ns)) continue;
    const auto message = arrival.find({wait.source, wait.sequence});
    if (message == arrival.end() || message->second < wait.start_ns) continue;
    wakes.push_back(static_cast<double>(std::max<int64_t>(0, wait.end_ns - message->second)));
  }
  model.wake_ns = Median(std::move(wakes));
  return model;
}

StalePolicy ParseStale(const std::string& text) {
  if (text == "drop") return StalePolicy::kDrop;
  if (text == "recompute") return StalePolicy::kRecompute;
  return text == "apply" ? StalePolicy::kApply : StalePolicy::kWait;
}

}  // namespace

Result<Roles> FindRoles(const RunData& run) {
  Roles roles;
  if (run.pools.size() != 2) {
    return Error{
        fmt::format("the what-if knows runs of two pools, this one has {}", run.pools.size())};
  }
  if (run.Number("gradients.buckets")) {
    return Error{"the what-if knows gradients that go out after their pass, not in buckets"};
  }
  if (run.Text("layout") == "rl") {
    return Error{"the what-if knows no workers that make several sequences at once"};
  }
  const auto index = [&run](const std::string& name) {
    return run.pools[0].pool == name ? 0 : run.pools[1].pool == name ? 1 : -1;
  };
  // The pool that updates is the one with that role, else the receiver of the first link.
  for (int i = 0; i < 2; ++i) {
    const std::string& role = run.pools[static_cast<size_t>(i)].role;
    if (role == "update" || role == "trainer") roles.update = i;
  }
  if (roles.update < 0 && !run.links.empty()) roles.update = index(run.links[0].to_pool);
  if (roles.update < 0) return Error{"no pool has the role update, and no link tells"};
  roles.compute = 1 - roles.update;
  for (size_t i = 0; i < run.links.size(); ++i) {
    const int from = index(run.links[i].from_pool);
    const int to = index(run.links[i].to_pool);
    if (from == roles.compute && to == roles.update) roles.gradients = static_cast<int>(i);
    if (from == roles.update && to == roles.compute) roles.weights = static_cast<int>(i);
  }
  if (roles.gradients < 0 || roles.weights < 0 || run.links.size() != 2) {
    return Error{"the what-if knows runs with one link each way between their two pools"};
  }
  return roles;
}

Result<Calibrated> Calibrate(const RunData& run, const EventRecords& records, int64_t begin_ns,
                             int64_t end_ns) {
  Result<Roles> roles = FindRoles(run);
  if (!roles) return roles.error();
  const Window window{begin_ns, end_ns, records.phases};
  Calibrated result;
  Model& model = result.model;
  model.compute = CalibratePool(run, records, roles->compute, window);
  model.update = CalibratePool(run, records, roles->update, window);
  if (model.compute.micro_batch.empty()) {
    return Error{"no work of pool " + model.compute.name + " says its micro-batch"};
  }
  if (model.update.step.empty()) return Error{"no work of pool " + model.update.name + " was seen"};

  const LinkInput input{run, records, window, *roles};
  Result<LinkModel> gradients = CalibrateLink(input, roles->gradients, roles->compute,
                                              roles->update, result.gradients_fit, result.assumed);
  if (!gradients) return gradients.error();
  Result<LinkModel> weights = CalibrateLink(input, roles->weights, roles->update, roles->compute,
                                            result.weights_fit, result.assumed);
  if (!weights) return weights.error();
  model.gradients = *gradients;
  model.weights = *weights;

  std::vector<double> batches;
  for (const StepRow& step : run.steps) batches.push_back(static_cast<double>(step.micro_batches));
  model.micro_batches =
      static_cast<int>(std::max(1.0, run.Number("micro_batches").value_or(Median(batches))));
  const std::string mode = run.Text("mode");
  model.async = mode == "async";
  if (mode != "async" && mode != "sync") {
    return Error{"setting mode is '" + mode + "': the what-if needs sync or async"};
  }
  model.lag_bound = static_cast<int>(std::max(0.0, run.Number("lag_bound").value_or(1)));
  model.stale = ParseStale(run.Text("stale", "wait"));
  const bool on_cores = model.compute.micro_batch.front().on_cores;
  if (on_cores) {
    const auto cores = run.Number("cores");
    model.cores = cores ? *cores : static_cast<double>(std::thread::hardware_concurrency());
    if (!cores) result.assumed.push_back(fmt::format("{:.0f} cores (this machine's)", model.cores));
  }
  for (const auto& [key, how] : run.settings) {
    constexpr std::string_view kInferred = "inferred.";
    if (key.rfind(kInferred, 0) == 0) {
      result.assumed.push_back(fmt::format("{}: {}", key.substr(kInferred.size()), how));
    }
  }
  if (records.inferred) {
    result.assumed.push_back("steps and micro-batches of work and messages: by when they ran");
  }
  return result;
}

}  // namespace poolscope
