#include "reference-trainer/run.h"

#include <cblas.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <type_traits>

#include "reference-trainer/codec_measure.h"
#include "reference-trainer/compute_worker.h"
#include "reference-trainer/heartbeat.h"
#include "reference-trainer/job.h"
#include "reference-trainer/monolithic_worker.h"
#include "reference-trainer/rollout_worker.h"
#include "reference-trainer/timing.h"
#include "reference-trainer/update_worker.h"

namespace poolscope::trainer {
namespace {

void AnnotateLinks(const Job& job) {
  if (!job.gradients) return;
  const char* const compute = job.options().compute_pool();
  const char* const update = job.options().update_pool();
  poolscope_link(job.gradients->name().c_str(), compute, update, job.gradients->capacity(),
                 job.gradients->lanes());
  poolscope_link("weights", update, compute, job.weights->capacity(), job.weights->lanes());
  if (job.all_reduce) {
    poolscope_link("allreduce", "compute", "compute", job.all_reduce->capacity(),
                   job.all_reduce->lanes());
  }
  if (!job.fetch) return;
  const auto link = [](const Link& each, const char* from) {
    poolscope_link(each.name().c_str(), from, "update", each.capacity(), each.lanes());
  };
  link(*job.fetch->requests, "compute");
  if (job.fetch->replicas) link(*job.fetch->replicas, "update");
}

// Starts the threads of this process' workers.
class Pools {
 public:
  explicit Pools(Job& job) : job_(job) {
    const Options& options = job.options();
    if (options.mode == Mode::kMonolithic) {
      threads_.emplace_back([this] {
        UseFineTimers();
        poolscope_worker("compute", 0, "compute");
        try {
          RunMonolithic(job_);
        } catch (const Abandoned&) {
        } catch (const std::exception& error) {
          job_.coordinator->Fail(error.what());
        }
        job_.coordinator->Ended();
      });
      return;
    }
    if (!options.schedule.kills.empty()) {
      heartbeat_ = std::make_unique<Heartbeat>(*job.coordinator, options.schedule.lease_seconds);
    }
    const Placement& placement = job.placement;
    for (uint64_t i = 0; i < placement.compute_workers; ++i) {
      if (placement.OfCompute(i) != placement.rank) continue;
      if (options.rollout.on) {
        Start<RolloutWorker>(options.compute_pool(), i);
      } else {
        Start<ComputeWorker>(options.compute_pool(), i);
      }
    }
    for (uint64_t i = 0; i < placement.update_workers; ++i) {
      if (placement.OfUpdate(i) == placement.rank) Start<UpdateWorker>(options.update_pool(), i);
    }
  }

  ~Pools() {
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  template <typename W>
  static constexpr bool kComputes = std::is_base_of_v<ComputeWorker, W>;

  template <typename W>
  void Start(const char* pool, uint64_t index) {
    threads_.emplace_back([this, pool, index] {
      UseFineTimers();
      if (!kComputes<W> || AwaitArrival(index)) Live<W>(pool, index);
      if (kComputes<W> && job_.fetch) job_.fetch->ComputeWorkerLeft();
      job_.coordinator->Ended();
    });
  }

  // False: the run ends before the compute worker comes.
  bool AwaitArrival(uint64_t index) {
    Signal& signal = *job_.compute_signals[index];
    for (;;) {
      const uint64_t ticket = signal.Ticket();
      const Presence presence = job_.coordinator->PresenceOf(index);
      if (presence != Presence::kAway) return presence == Presence::kPresent;
      signal.WaitPast(ticket);
    }
  }

  template <typename W>
  void Live(const char* pool, uint64_t index) {
    const Heartbeat::Pulse pulse(kComputes<W> ? heartbeat_.get() : nullptr, index);
    poolscope_worker(pool, static_cast<unsigned>(index), pool);
    try {
      W worker(job_, index);
      if (!kComputes<W> || index < job_.options().compute_workers) {
        worker.Probe();
        job_.coordinator->Ready();
        AwaitStart(*(kComputes<W> ? job_.compute_signals : job_.update_signals)[index]);
      }
      worker.Run();
    } catch (const Abandoned&) {
    } catch (const std::exception& error) {  // it found no place for its state
      job_.coordinator->Fail(error.what());
    }
  }

  // Until all that are there from the first step on are ready: it counts nobody's preparation.
  void AwaitStart(Signal& signal) {
    for (;;) {
      const uint64_t ticket = signal.Ticket();
      job_.CheckRunning();
      if (job_.coordinator->started()) return;
      signal.WaitPast(ticket);
    }
  }

  Job& job_;
  std::unique_ptr<Heartbeat> heartbeat_;  // null where nobody dies
  std::vector<std::thread> threads_;
};

}  // namespace

std::string Train(const Options& options, const Corpus* corpus, const OnStep& on_step,
                  const ShouldStop& should_stop, RunTotals* totals, Transport* transport) {
  constexpr std::chrono::milliseconds kPatience(50);
  openblas_set_num_threads(1);
  UseFineTimers();
  Job job(options, corpus, transport);
  if (const std::string error = job.OpenCheckpoints(); !error.empty()) return error;
  if (job.placement.rank == 0) AnnotateSettings(options, ProbeCodecs(job));
  AnnotateLinks(job);
  if (transport) transport->Start();
  {
    Pools pools(job);
    bool stopping = false;
    while (!job.journal.Drained()) {
      if (const auto record = job.journal.Next(kPatience)) on_step(*record);
      job.coordinator->CheckLeases();
      if (!stopping && should_stop()) {
        stopping = true;
        job.coordinator->StopAfterCurrentStep();
      }
    }
  }
  job.checkpoints.reset();  // the last one is written
  if (transport) transport->Close();
  if (totals) {
    if (job.gradients) totals->gradients = job.gradients->traffic();
    if (job.weights) totals->weights = job.weights->traffic();
    if (job.all_reduce) totals->all_reduce = job.all_reduce->traffic();
    if (job.fetch) totals->fetch = job.fetch->totals();
    if (job.fetch) totals->requests = job.fetch->requests->traffic();
    if (job.expert_load) totals->expert_tokens = job.expert_load->tokens();
  }
  return job.coordinator->failure();
}

}  // namespace poolscope::trainer
