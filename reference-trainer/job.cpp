#include "reference-trainer/job.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "reference-trainer/coordinator_remote.h"
#include "reference-trainer/host_fed_device.h"
#include "reference-trainer/links_of_run.h"
#include "reference-trainer/local_coordinator.h"
#include "reference-trainer/model/adamw.h"
#include "reference-trainer/model/cpu_replica.h"
#include "reference-trainer/model/cpu_shard.h"
#include "reference-trainer/slow_device.h"

namespace poolscope::trainer {
namespace {

// Empty where nothing is computed.
std::vector<Ranges> ShardsOf(const Options& options, bool computes) {
  const size_t count = options.mode == Mode::kMonolithic ? 1 : options.update_workers;
  if (!computes) return std::vector<Ranges>(count);
  return LayOut(options.state.layout, ShapeOf(options.model), count);
}

std::shared_ptr<const Batch> Read(const Corpus* corpus, const Options& options, uint64_t data,
                                  uint64_t sequences) {
  if (!corpus) return nullptr;
  const ModelOptions& model = options.model;
  Batch batch = corpus->MicroBatch(options.seed, data, sequences, model.context);
  batch.weight =
      static_cast<float>(static_cast<double>(sequences) / static_cast<double>(model.batch));
  return std::make_shared<const Batch>(std::move(batch));
}

std::vector<Signal*> Pointers(const std::vector<std::unique_ptr<Signal>>& signals) {
  std::vector<Signal*> pointers;
  pointers.reserve(signals.size());
  for (const auto& each : signals) pointers.push_back(each.get());
  return pointers;
}

Placement PlacementOf(const Options& options, const Transport* transport) {
  const uint64_t compute_workers = options.AllComputeWorkers();
  if (!transport) return {0, 1, compute_workers, options.update_workers};
  return {transport->rank(), transport->ranks(), compute_workers, options.update_workers};
}

}  // namespace

Job::Job(const Options& options, const Corpus* corpus, Transport* transport)
    : annotations(options),
      placement(PlacementOf(options, transport)),
      options_(options),
      corpus_(corpus),
      shape_(ShapeOf(options.model)),
      parameters_(corpus ? Parameters(shape_).size() : 0),
      shards_(ShardsOf(options, corpus != nullptr)),
      shares_(SharesOfWorkers(options)),
      state_(StateOfWorkers(options)) {
  MakeCoordinator(transport);
  if (shape_.experts > 0) expert_load = std::make_unique<ExpertLoad>(shape_.experts);
  if (options.input.any()) {
    loader = std::make_unique<DataLoader>(options.input, [corpus, options](uint64_t data) {
      return Read(corpus, options, data, options.model.batch);
    });
  }
  if (const SideWorkOptions& side = options.side_work; side.kind != SideWorkOptions::Kind::kNone) {
    const DeviceSpec& device = options.devices.Of(side.pool);
    const bool data = side.kind == SideWorkOptions::Kind::kDataPreparation;
    side_work = std::make_unique<SideWork>(side, device.kind == DeviceKind::kEmulated,
                                           data ? loader.get() : nullptr);
  }
  if (options.mode == Mode::kMonolithic) return;
  for (uint64_t i = 0; i < placement.compute_workers; ++i) {
    compute_signals.push_back(std::make_unique<Signal>());
  }
  for (uint64_t i = 0; i < options.update_workers; ++i) {
    update_signals.push_back(std::make_unique<Signal>());
  }
  update_deaths.resize(options.update_workers);
  for (const Departure& each : options.schedule.update_kills) {
    update_deaths[each.worker].push_back(each);
  }
  LinksOfRun links = MakeLinks(options, annotations, placement, Pointers(compute_signals),
                               Pointers(update_signals), transport,
                               [this](const std::string& message) { coordinator->Fail(message); });
  gradients = std::move(links.gradients);
  weights = std::move(links.weights);
  all_reduce = std::move(links.all_reduce);
  if (options.gradient_buckets > 1) {
    std::vector<uint64_t> bytes;
    for (size_t i = 0; i < shards_.size(); ++i) bytes.push_back(GradientBytes(i));
    buckets =
        std::make_unique<const GradientBuckets>(options.gradient_buckets, shape_, shards_, bytes);
  }
  if (options.fetch.on) {
    fetch =
        std::make_unique<Fetch>(options, placement.compute_workers, Pointers(update_signals),
                                [this](const std::string& message) { coordinator->Fail(message); });
  }
}

// The links' threads may still say that the run fails, which wakes all others: they end first.
Job::~Job() {
  gradients.reset();
  weights.reset();
  all_reduce.reset();
}

void Job::MakeCoordinator(Transport* transport) {
  const auto wake = [this](const auto& signals) {
    for (const auto& signal : signals) signal->Notify();
    if (coordinator_server) coordinator_server->TellState();
  };
  if (transport && transport->rank() > 0) {
    coordinator = std::make_unique<RemoteCoordinator>(*transport, journal, [this, wake] {
      wake(compute_signals);
      wake(update_signals);
    });
    return;
  }
  auto local = std::make_unique<LocalCoordinator>(
      options_, annotations, journal,
      LocalCoordinator::Wakers{[this, wake] { wake(compute_signals); },
                               [this, wake] {
                                 wake(update_signals);
                                 if (fetch) wake(fetch->server_signals);
                               },
                               [this](uint64_t worker) { weights->Close(worker); }});
  if (transport) coordinator_server = std::make_unique<CoordinatorServer>(*local, *transport);
  coordinator = std::move(local);
}

std::unique_ptr<Device> Job::MakeDevice(PoolRole pool, size_t index) const {
  const bool compute = pool == PoolRole::kCompute;
  const DeviceKind kind = options_.devices.Of(pool).kind;
  std::unique_ptr<Device> device;
  switch (kind) {
    case DeviceKind::kCpu:
      device = std::make_unique<CpuDevice>();
      break;
    case DeviceKind::kCuda:
      device = std::make_unique<RemoteDevice>();
      break;
    case DeviceKind::kEmulated:
      device = MakeEmulatedDevice(pool, index);
      break;
  }
  const WorkerName worker = {compute ? options_.compute_pool() : options_.update_pool(), index};
  device = Slowed(std::move(device), kind == DeviceKind::kEmulated, options_.slowness, worker);
  if (options_.host.seconds == 0) return device;
  return std::make_unique<HostFedDevice>(std::move(device), options_.host, worker);
}

std::unique_ptr<Device> Job::MakeEmulatedDevice(PoolRole pool, size_t index) const {
  const DeviceOptions& devices = options_.devices;
  // Of the first compute workers, then the update workers, then those that join.
  const bool first = pool == PoolRole::kCompute && index < options_.compute_workers;
  const uint64_t before = first                       ? 0
                          : pool == PoolRole::kUpdate ? options_.compute_workers
                                                      : options_.update_workers;
  std::shared_ptr<Turns> turns;
  if (devices.shared || devices.compute.number || devices.update.number) {
    std::lock_guard lock(turns_mutex_);
    std::shared_ptr<Turns>& of_device = turns_[DeviceOf(options_, pool, index)];
    if (!of_device) of_device = std::make_shared<Turns>();
    turns = of_device;
  }
  return std::make_unique<EmulatedDevice>(options_.jitter, options_.seed * 1000003 + before + index,
                                          std::move(turns));
}

std::unique_ptr<Replica> Job::MakeReplica(size_t worker) const {
  if (!corpus_) return nullptr;
  const size_t stated = options_.model.batch;
  const size_t most = options_.schedule.dynamic_batch ? Pace::Sequences(stated, 1) : stated;
  if (options_.devices.compute.kind == DeviceKind::kCuda) {
    return MakeCudaReplica(CudaWorkerOf(options_, PoolRole::kCompute, worker), shape_, most,
                           options_.seed);
  }
  return std::make_unique<CpuReplica>(shape_, most, options_.seed);
}

std::shared_ptr<const Batch> Job::ReadBatch(uint64_t data, uint64_t sequences) const {
  return Read(corpus_, options_, data, sequences);
}

std::unique_ptr<Shard> Job::MakeShard(const Ranges& ranges, const OffloadOptions& offload,
                                      size_t worker) const {
  if (!corpus_) return nullptr;
  AdamW::Rates rates;
  rates.learning_rate = options_.model.learning_rate;
  rates.weight_decay = options_.model.weight_decay;
  if (options_.devices.update.kind == DeviceKind::kCuda) {
    return MakeCudaShard(CudaWorkerOf(options_, PoolRole::kUpdate, worker), shape_, ranges,
                         options_.seed, rates);
  }
  return std::make_unique<CpuShard>(shape_, ranges, options_.seed, rates, offload);
}

uint64_t Job::ShardBytes(size_t index, uint64_t emulated_bytes) const {
  if (options_.devices.emulated()) {
    if (options_.state.layout != ShardLayout::kLayer) {
      return PartOf(emulated_bytes, index, options_.update_workers).size();
    }
    return static_cast<uint64_t>(static_cast<double>(emulated_bytes) * shares_[index]);
  }
  return SizeOf(ShardRanges(index)) * sizeof(float);
}

uint64_t Job::GradientBytes(size_t index) const {
  return ShardBytes(index, options_.gradient_bytes);
}

uint64_t Job::AllGradientBytes() const {
  return options_.devices.emulated() ? options_.gradient_bytes : parameters_ * sizeof(float);
}

uint64_t Job::WeightBytes(size_t index) const { return ShardBytes(index, options_.weight_bytes); }

double Job::AddSeconds(uint64_t bytes) const {
  const DeviceOptions& devices = options_.devices;
  if (devices.compute.profile.empty()) return 0;
  constexpr double kAccesses = 3;  // reads both, writes one
  return kAccesses * static_cast<double>(bytes) * devices.time_scale /
         FindDeviceProfile(devices.compute.profile)->achieved_bytes_per_second();
}

CodecFigures Job::StatedCodec(const Codec& codec, CodecUse use) const {
  const DeviceOptions& devices = options_.devices;
  double compute = 0, update = 0;
  if (!devices.compute.profile.empty()) {
    compute = FindDeviceProfile(devices.compute.profile)->achieved_bytes_per_second();
    update = FindDeviceProfile(devices.update.profile)->achieved_bytes_per_second();
  }
  compute *= static_cast<double>(devices.per_worker);
  if (use == CodecUse::kWeights) std::swap(compute, update);
  CodecFigures figures = StatedFigures(codec, compute, update);
  figures.encode_bytes_per_second /= devices.time_scale;
  figures.decode_bytes_per_second /= devices.time_scale;
  return figures;
}

std::string Job::OpenCheckpoints() {
  const CheckpointOptions& options = options_.checkpoint;
  const StateFolder::Facts facts = FactsOf(options_, corpus_);
  if (!options.resume.empty()) {
    auto found = StateFolder(options.resume, facts).LoadNewest();
    if (const auto* error = std::get_if<std::string>(&found)) return "--resume: " + *error;
    auto& loaded = *std::get_if<StateFolder::Loaded>(&found);
    for (const std::string& note : loaded.notes) {
      fmt::print(stderr, "poolscope-trainer: {}; going on from step {}\n", note, loaded.state.step);
    }
    start_ = std::move(loaded.state);
    if (start_.step > options_.steps) {
      return fmt::format("--resume {}: it has made {} updates, more than --steps {}",
                         options.resume, start_.step, options_.steps);
    }
    if (options_.mode != Mode::kAsync && start_.data != coordinator->PositionAt(start_.step)) {
      return fmt::format("--resume {}: it took micro-batches as they came; go on with --async",
                         options.resume);
    }
    coordinator->Rewind(start_.step, start_.data);
    if (loader) loader->GoTo(start_.data.next);
  }
  if (options.folder.empty()) return "";
  StateFolder folder(options.folder, facts);
  std::error_code different;
  const bool same = std::filesystem::equivalent(options.folder, options.resume, different);
  if (!same && folder.HoldsCheckpoints()) {
    return fmt::format(
        "--checkpoint-dir {0} holds checkpoints; go on from them with --resume {0} "
        "or give another folder",
        options.folder);
  }
  if (const std::string error = folder.Prepare(); !error.empty()) return error;
  checkpoints = std::make_unique<Checkpoints>(
      options_, folder, parameters_, [this](const std::string& error) { coordinator->Fail(error); },
      [this] { return coordinator->failed(); },
      [this] { return coordinator->failed() || coordinator->restarting(); });
  return "";
}

void Job::GoBack(uint64_t dead) {
  if (checkpoints) {
    checkpoints->Settle();
    const StateFolder folder(options_.checkpoint.folder, FactsOf(options_, corpus_));
    auto found = folder.LoadNewest();
    if (auto* loaded = std::get_if<StateFolder::Loaded>(&found)) start_ = std::move(loaded->state);
  }
  const uint64_t again = journal.told() - std::min(journal.told(), start_.step);
  ++restarts_.count;
  restarts_.steps += again;
  fmt::print(stderr,
             "poolscope-trainer: update worker {} has died; all go back to step {}, {} steps are "
             "done again\n",
             dead, start_.step, again);
  gradients->Clear();
  weights->Clear();
  if (all_reduce) all_reduce->Clear();
  coordinator->Rewind(start_.step, start_.data);
  if (loader) loader->GoTo(start_.data.next);
  for (uint64_t i = 0; i < placement.compute_workers; ++i) {
    if (coordinator->PresenceOf(i) == Presence::kGone) weights->Close(i);
  }
  poolscope_sample(poolscope_counter("restarts"), static_cast<double>(restarts_.count));
  poolscope_sample(annotations.version, static_cast<double>(start_.step));
}

uint64_t Job::tokens_before() const {
  return StatedTokens((start_.data.next - start_.data.open.size()) * tokens_of_micro_batch());
}

void Job::CheckRunning() const {
  if (coordinator->failed()) throw Abandoned{};
  if (coordinator->restarting()) throw BeginAgain{};
}

}  // namespace poolscope::trainer
