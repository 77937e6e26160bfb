#include "advisor/simulation.h"

#include <algorithm>
#include <array>

#include "advisor/admission_state.h"
#include "advisor/event_queue.h"
#include "advisor/link_state.h"
#include "advisor/random.h"
#include "advisor/run_data.h"
#include "advisor/shared_cores.h"
#include "advisor/simulated_worker.h"

namespace poolscope {
namespace {

constexpr int64_t kMostEvents = 20'000'000;

using Worker = SimulatedWorker;

class Simulation {
 public:
  Simulation(const Model& model, const SimulationOptions& options)
      : model_(model),
        options_(options),
        links_{LinkState(model.gradients, model.update.workers, model.update.workers),
               LinkState(model.weights, model.compute.workers, model.update.workers)},
        admission_(model),
        cores_(model.cores) {
    const int compute = model.compute.workers;
    for (int i = 0; i < compute + model.update.workers; ++i) {
      Worker worker;
      worker.is_compute = i < compute;
      worker.index = worker.is_compute ? i : i - compute;
      worker.phase = worker.is_compute ? Phase::kBegin : Phase::kReceive;
      worker.shards.assign(static_cast<size_t>(model.update.workers), 0);
      worker.random = Random(options.seed * 1000003 + static_cast<uint64_t>(i));
      workers_.push_back(std::move(worker));
    }
  }

  Simulated Run() {
    for (size_t i = 0; i < workers_.size(); ++i) Advance(workers_[i]);
    const size_t target =
        static_cast<size_t>(options_.steps) + static_cast<size_t>(options_.warm_up_steps);
    int64_t events = 0;
    while (!queue_.empty() && step_ends_.size() <= target && ++events < kMostEvents) {
      const Timed next = queue_.Next();
      now_ = next.at;
      Handle(next);
    }
    return Result(step_ends_.size() > target);
  }

 private:
  // --- Time and states ---
  int Id(const Worker& worker) const {
    return worker.is_compute ? worker.index : model_.compute.workers + worker.index;
  }
  void Spend(Worker& worker, double ns, Doing doing) {
    worker.Become(now_, doing);
    queue_.Schedule(now_ + ns, Happening::kWorker, Id(worker));
  }
  void Wait(Worker& worker, Sleep sleep, Doing doing) {
    worker.Become(now_, doing);
    worker.sleep = sleep;
  }
  void Wake(Worker& worker, double delay_ns = 0) {
    worker.sleep = Sleep::kNo;
    queue_.Schedule(now_ + delay_ns, Happening::kWorker, Id(worker));
  }
  void WakeAll(bool compute, Sleep sleep) {
    for (Worker& worker : workers_) {
      if (worker.is_compute == compute && worker.sleep == sleep) Wake(worker);
    }
  }
  // A slot is free: all who stand blocked try again, those first who have stood longest.
  void WakeBlocked(bool compute) {
    std::vector<Worker*> blocked;
    for (Worker& worker : workers_) {
      if (worker.is_compute == compute && worker.sleep == Sleep::kSlot) blocked.push_back(&worker);
    }
    std::sort(blocked.begin(), blocked.end(),
              [](const Worker* a, const Worker* b) { return a->blocked_order < b->blocked_order; });
    for (Worker* worker : blocked) Wake(*worker);
  }
  void WakeComputeWorkers() {
    WakeAll(true, Sleep::kCredit);
    WakeAll(true, Sleep::kMessage);
  }
  void RescheduleCores() {
    ++cores_generation_;
    if (!cores_.empty()) {
      queue_.Schedule(std::max(now_, cores_.NextEnd()), Happening::kCores, 0, {},
                      cores_generation_);
    }
  }

  void Handle(const Timed& event) {
    switch (event.what) {
      case Happening::kWorker:
        Advance(workers_[static_cast<size_t>(event.index)]);
        break;
      case Happening::kLaneFree:
        links_[static_cast<size_t>(event.index)].LaneFreed();
        StartLanes(event.index);
        break;
      case Happening::kArrival: {
        LinkState& link = links_[static_cast<size_t>(event.index)];
        link.Arrive(event.message);
        Worker& receiver = event.index == 0 ? Update(event.message.destination)
                                            : Compute(event.message.destination);
        // Workers that wait for anything look at their messages too when they are woken.
        if (receiver.sleep == Sleep::kMessage ||
            (receiver.is_compute && receiver.sleep != Sleep::kNo)) {
          Wake(receiver, link.model().wake_ns);
        }
        break;
      }
      case Happening::kCores:
        if (event.generation != cores_generation_) break;
        for (int id : cores_.Finish(now_)) Advance(workers_[static_cast<size_t>(id)]);
        RescheduleCores();
        break;
    }
  }

  Worker& Compute(int index) { return workers_[static_cast<size_t>(index)]; }
  Worker& Update(int index) {
    const int at = model_.compute.workers + index;
    return workers_[static_cast<size_t>(at)];
  }
  LinkState& Out(const Worker& worker) { return links_[worker.is_compute ? 0 : 1]; }
  LinkState& In(const Worker& worker) { return links_[worker.is_compute ? 1 : 0]; }
  int Destinations(const Worker& worker) const {
    return worker.is_compute ? model_.update.workers : model_.compute.workers;
  }

  void StartLanes(int index) {
    LinkState& link = links_[static_cast<size_t>(index)];
    SimulatedMessage message;
    while (link.StartNext(message)) {
      const double free_at = now_ + link.lane_ns();
      queue_.Schedule(free_at, Happening::kLaneFree, index);
      queue_.Schedule(free_at + link.model().latency_ns, Happening::kArrival, index, message);
    }
  }

  // --- Workers ---
  // Draws one duration; operations per shard grow as the pool shrinks.
  void Operate(Worker& worker, const Operation& operation, const PoolModel& pool) {
    const auto own = static_cast<size_t>(worker.index);
    const bool has_own =
        own < operation.samples.by_worker.size() && !operation.samples.by_worker[own].empty();
    const std::vector<double>& from =
        has_own ? operation.samples.by_worker[own] : operation.samples.all;
    double ns = from.empty() ? 0 : from[worker.random.Below(from.size())];
    if (operation.scope == OperationScope::kPerShard) {
      ns *= static_cast<double>(pool.calibrated_workers) / pool.workers;
    }
    if (operation.on_cores) {
      worker.Become(now_, Doing::kBusy);
      cores_.Start(now_, Id(worker), ns + operation.gap_ns);
      RescheduleCores();
    } else {
      Spend(worker, ns + operation.gap_ns, Doing::kBusy);
    }
  }

  // Goes on until the worker sleeps or spends time.
  void Advance(Worker& worker) {
    while (worker.is_compute ? AdvanceCompute(worker) : AdvanceUpdate(worker)) {
    }
  }

  bool AdvanceCompute(Worker& worker) {
    switch (worker.phase) {
      case Phase::kBegin:
        return model_.async ? BeginAttempt(worker) : BeginStep(worker);
      case Phase::kOperations:
        return Operations(worker);
      case Phase::kEncode:
      case Phase::kHandOver:
        return Send(worker);
      case Phase::kReceive:
        return ReceiveWeights(worker);
    }
    return false;
  }

  bool BeginStep(Worker& worker) {
    worker.micro_batch = worker.index;
    worker.operation = 0;
    worker.step_operations = false;
    worker.received = 0;
    worker.destination = 0;
    worker.phase = worker.index < model_.micro_batches ? Phase::kOperations : Phase::kReceive;
    return true;
  }

  bool Operations(Worker& worker) {
    const PoolModel& pool = model_.compute;
    const std::vector<Operation>& list = worker.step_operations ? pool.step : pool.micro_batch;
    if (worker.operation < list.size()) {
      Operate(worker, list[worker.operation++], pool);
      return false;
    }
    worker.operation = 0;
    if (!worker.step_operations && !model_.async) {
      worker.micro_batch += pool.workers;
      if (worker.micro_batch < model_.micro_batches) return true;
    }
    if (!worker.step_operations && !pool.step.empty() && !model_.async) {
      worker.step_operations = true;
      return true;
    }
    worker.destination = 0;
    worker.phase = Phase::kEncode;
    return true;
  }

  // One message to each worker of the other pool: encode, wait for a slot, hand over.
  bool Send(Worker& worker) {
    LinkState& link = Out(worker);
    if (worker.phase == Phase::kEncode) {
      if (worker.destination == Destinations(worker)) {
        worker.phase = worker.is_compute && model_.async ? Phase::kBegin : Phase::kReceive;
        return true;
      }
      worker.phase = Phase::kHandOver;
      Spend(worker, link.encode_ns() + link.model().hand_over_ns, Doing::kOther);
      return false;
    }
    if (!link.HasSlot(worker.destination)) {
      // A worker that computes takes its weights while it stands blocked: an update worker that
      // cannot deliver them would not empty its own buffer.
      if (worker.is_compute && model_.async && InstallArrived(worker)) return false;
      if (worker.blocked_order == 0) worker.blocked_order = ++blocked_;
      Wait(worker, Sleep::kSlot, Doing::kBlocked);
      return false;
    }
    worker.blocked_order = 0;
    link.HandOver(now_, {worker.index, worker.destination,
                         worker.is_compute ? worker.attempt : worker.version});
    StartLanes(worker.is_compute ? 0 : 1);
    ++worker.destination;
    worker.phase = Phase::kEncode;
    return true;
  }

  SimulatedMessage TakeFrom(Worker& worker) {
    LinkState& link = In(worker);
    const SimulatedMessage message = link.Take(now_, worker.index);
    WakeBlocked(!worker.is_compute);
    return message;
  }

  double TakingNs(const LinkState& link) const {
    return link.model().take_ns + link.decode_ns() + link.apply_ns();
  }

  // Synchronous: takes one message out, or waits for it.
  void ReceiveOne(Worker& worker) {
    LinkState& link = In(worker);
    if (!link.Arrived(worker.index)) {
      Wait(worker, Sleep::kMessage, Doing::kWaitLink);
      return;
    }
    TakeFrom(worker);
    ++worker.received;
    Spend(worker, TakingNs(link), Doing::kOther);
  }

  // Synchronous: all shards of the step's weights.
  bool ReceiveWeights(Worker& worker) {
    if (worker.received == model_.update.workers) {
      worker.phase = Phase::kBegin;
      return true;
    }
    ReceiveOne(worker);
    return false;
  }

  // Asynchronous: takes in all weights that have arrived, the newest of each shard alone is
  // decoded. The version held is that of the oldest shard. False: nothing had arrived, no time is
  // spent.
  bool InstallArrived(Worker& worker) {
    LinkState& link = In(worker);
    if (!link.Arrived(worker.index)) return false;
    std::vector<bool> fresh(worker.shards.size());
    while (link.Arrived(worker.index)) {
      const SimulatedMessage message = TakeFrom(worker);
      const auto shard = static_cast<size_t>(message.source);
      worker.shards[shard] = std::max(worker.shards[shard], message.number);
      fresh[shard] = true;
    }
    worker.version = *std::min_element(worker.shards.begin(), worker.shards.end());
    const auto decoded = static_cast<double>(std::count(fresh.begin(), fresh.end(), true));
    Spend(worker, decoded * TakingNs(link), Doing::kOther);
    return true;
  }

  // Asynchronous: installs what has arrived, then starts a micro-batch if it may.
  bool BeginAttempt(Worker& worker) {
    if (InstallArrived(worker)) return false;
    switch (admission_.TryStart(worker.version, worker.attempt)) {
      case AdmissionState::Start::kNoCredit:
        Wait(worker, Sleep::kCredit, Doing::kWaitCredit);
        return false;
      case AdmissionState::Start::kNeedsWeights:
        Wait(worker, Sleep::kMessage, Doing::kWaitLink);
        return false;
      case AdmissionState::Start::kStarted:
        break;
    }
    worker.operation = 0;
    worker.step_operations = false;
    worker.phase = Phase::kOperations;
    return true;
  }

  bool AdvanceUpdate(Worker& worker) {
    switch (worker.phase) {
      case Phase::kBegin:
      case Phase::kReceive:
        return model_.async ? ReceiveAsync(worker) : ReceiveGradients(worker);
      case Phase::kOperations:
        return Optimize(worker);
      case Phase::kEncode:
      case Phase::kHandOver:
        return Send(worker);
    }
    return false;
  }

  bool ReceiveGradients(Worker& worker) {
    const int expected = std::min(model_.compute.workers, model_.micro_batches);
    if (worker.received == expected) {
      worker.received = 0;
      worker.operation = 0;
      worker.phase = Phase::kOperations;
      return true;
    }
    ReceiveOne(worker);
    return false;
  }

  void Count(Worker& worker, int step) {
    if (step == worker.version) {
      ++worker.received;
    } else {
      ++worker.early[step];
    }
  }

  // Takes one message, then asks of all that are undecided which step they go into.
  bool ReceiveAsync(Worker& worker) {
    if (worker.received == model_.micro_batches) {
      worker.received = 0;
      worker.operation = 0;
      worker.phase = Phase::kOperations;
      return true;
    }
    LinkState& link = In(worker);
    if (!link.Arrived(worker.index)) {
      Wait(worker, Sleep::kMessage, Doing::kWaitLink);
      return false;
    }
    std::vector<int> ask;
    ask.swap(worker.undecided);
    ask.push_back(TakeFrom(worker).number);
    int accepted = 0;
    bool discarded = false;
    for (int attempt : ask) {
      const AdmissionState::Decision decision = admission_.Ask(attempt);
      switch (decision.verdict) {
        case AdmissionState::Verdict::kUndecided:
          worker.undecided.push_back(attempt);
          break;
        case AdmissionState::Verdict::kAccepted:
          Count(worker, decision.step);
          ++accepted;
          break;
        case AdmissionState::Verdict::kDiscarded:
          discarded = true;
          break;
      }
    }
    if (discarded) WakeComputeWorkers();
    Spend(worker, link.model().take_ns + accepted * (link.decode_ns() + link.apply_ns()),
          Doing::kOther);
    return false;
  }

  bool Optimize(Worker& worker) {
    if (worker.operation < model_.update.step.size()) {
      Operate(worker, model_.update.step[worker.operation++], model_.update);
      return false;
    }
    ++worker.version;
    const auto early = worker.early.find(worker.version);
    if (early != worker.early.end()) {
      worker.received += early->second;
      worker.early.erase(early);
    }
    if (worker.index == 0) StepMade();
    int oldest = worker.version;
    for (int i = 0; i < model_.update.workers; ++i) oldest = std::min(oldest, Update(i).version);
    if (oldest > updates_) {
      updates_ = oldest;
      admission_.Updated();
      if (model_.async) WakeComputeWorkers();
    }
    worker.destination = 0;
    worker.phase = Phase::kEncode;
    return true;
  }

  void StepMade() {
    step_ends_.push_back(now_);
    if (step_ends_.size() != static_cast<size_t>(options_.warm_up_steps) + 1) return;
    for (Worker& worker : workers_) {
      worker.Become(now_, worker.doing);
      worker.spent = {};
    }
    for (LinkState& link : links_) link.MeasureFrom(now_);
    discarded_before_ = admission_.discarded();
    started_before_ = admission_.started();
  }

  Simulated Result(bool finished) {
    Simulated result;
    result.finished = finished;
    if (!finished) return result;
    for (Worker& worker : workers_) worker.Become(now_, worker.doing);
    const auto first = static_cast<size_t>(options_.warm_up_steps);
    const double wall = step_ends_.back() - step_ends_[first];
    std::vector<double> steps;
    for (size_t i = first + 1; i < step_ends_.size(); ++i) {
      steps.push_back(step_ends_[i] - step_ends_[i - 1]);
    }
    result.step_ns = wall / static_cast<double>(steps.size());
    result.median_step_ns = Median(steps);
    const double started = static_cast<double>(admission_.started() - started_before_);
    if (started > 0) {
      const double discarded = static_cast<double>(admission_.discarded() - discarded_before_);
      result.accepted = 1 - discarded / started;
    }
    result.compute = MeanStates(workers_, true, wall);
    result.update = MeanStates(workers_, false, wall);
    result.gradients = {links_[0].MeanDepth(now_), links_[0].LaneBusy(now_)};
    result.weights = {links_[1].MeanDepth(now_), links_[1].LaneBusy(now_)};
    return result;
  }

  const Model& model_;
  const SimulationOptions options_;
  double now_ = 0;
  EventQueue queue_;
  std::vector<Worker> workers_;
  std::array<LinkState, 2> links_;
  AdmissionState admission_;
  SharedCores cores_;
  uint64_t cores_generation_ = 0;
  uint64_t blocked_ = 0;  // how often a worker has become blocked
  std::vector<double> step_ends_;
  int updates_ = 0;
  int64_t discarded_before_ = 0, started_before_ = 0;
};

}  // namespace

double Samples::Mean() const {
  if (all.empty()) return 0;
  double sum = 0;
  for (double value : all) sum += value;
  return sum / static_cast<double>(all.size());
}

Simulated Simulate(const Model& model, const SimulationOptions& options) {
  return Simulation(model, options).Run();
}

}  // namespace poolscope
