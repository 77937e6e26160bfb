#include "reference-trainer/run.h"

#include <cblas.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

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

// The threads of this process' workers. Where the run begins again, those that live meet and go on
// together, and those that have ended are started anew.
class Pools {
 public:
  explicit Pools(Job& job) : job_(job), restart_name_(poolscope_name("restart")) {
    const Options& options = job.options();
    if (options.mode == Mode::kMonolithic) {
      Add(nullptr, 0, [this] {
        poolscope_worker("compute", 0, "compute");
        RunMonolithic(job_);
      });
      return;
    }
    const ScheduleOptions& schedule = options.schedule;
    const bool die = !schedule.kills.empty(), update_die = !schedule.update_kills.empty();
    if (die || update_die) {
      heartbeat_ = std::make_unique<Heartbeat>(*job.coordinator, schedule.lease_seconds);
    }
    const Placement& placement = job.placement;
    for (uint64_t i = 0; i < placement.compute_workers; ++i) {
      if (placement.OfCompute(i) != placement.rank) continue;
      Add(die ? heartbeat_.get() : nullptr, i, [this, i] {
        if (!AwaitArrival(i)) return;
        if (job_.options().rollout.on) {
          Live<RolloutWorker>(job_.options().compute_pool(), i, *job_.compute_signals[i]);
        } else {
          Live<ComputeWorker>(job_.options().compute_pool(), i, *job_.compute_signals[i]);
        }
      });
    }
    for (uint64_t i = 0; i < placement.update_workers; ++i) {
      if (placement.OfUpdate(i) != placement.rank) continue;
      Add(update_die ? heartbeat_.get() : nullptr, placement.compute_workers + i, [this, i] {
        Live<UpdateWorker>(job_.options().update_pool(), i, *job_.update_signals[i]);
      });
    }
  }

  ~Pools() {
    for (Lane& lane : lanes_) lane.thread.join();
  }

  // After Job::GoBack.
  void Restart() {
    {
      std::lock_guard lock(mutex_);
      ++restarts_;
      for (Lane& lane : lanes_) {
        if (std::exchange(lane.meets, false)) continue;
        lane.thread.join();
        Start(lane);
      }
    }
    restarted_.notify_all();
  }

 private:
  struct Lane {
    Heartbeat* heart;  // null: nobody takes the worker for dead
    uint64_t worker;   // number
    std::function<void()> live;
    std::thread thread;
    bool meets = false;  // guarded by mutex_
  };

  void Add(Heartbeat* heart, uint64_t worker, std::function<void()> live) {
    Start(lanes_.emplace_back(Lane{heart, worker, std::move(live), {}}));
  }

  void Start(Lane& lane) {
    lane.thread = std::thread([this, &lane] {
      UseFineTimers();
      const Heartbeat::Pulse pulse(lane.heart, lane.worker);
      while (!LivesToItsEnd(lane)) {
        std::unique_lock lock(mutex_);
        lane.meets = true;
        const uint64_t before = restarts_;
        job_.coordinator->Ended();
        poolscope_begin(POOLSCOPE_OTHER_WORK, restart_name_);
        restarted_.wait(lock, [&] { return restarts_ != before; });
        poolscope_end();
      }
      const bool computes = lane.worker < job_.placement.compute_workers;
      if (computes && job_.fetch) job_.fetch->ComputeWorkerLeft();
      job_.coordinator->Ended();
    });
  }

  // False: the run begins again.
  bool LivesToItsEnd(const Lane& lane) {
    try {
      lane.live();
    } catch (const BeginAgain&) {
      return false;
    } catch (const Abandoned&) {
    } catch (const std::exception& error) {  // it found no place for its state
      job_.coordinator->Fail(error.what());
    }
    return true;
  }

  // False: the run ends before the compute worker comes.
  bool AwaitArrival(uint64_t index) {
    Signal& signal = *job_.compute_signals[index];
    for (;;) {
      const uint64_t ticket = signal.Ticket();
      job_.CheckRunning();
      const Presence presence = job_.coordinator->PresenceOf(index);
      if (presence != Presence::kAway) return presence == Presence::kPresent;
      signal.WaitPast(ticket);
    }
  }

  template <typename W>
  void Live(const char* pool, uint64_t index, Signal& signal) {
    poolscope_worker(pool, static_cast<unsigned>(index), pool);
    W worker(job_, index);
    const bool joins =
        std::is_base_of_v<ComputeWorker, W> && index >= job_.options().compute_workers;
    if (restarts_ == 0 && !joins) {
      worker.Probe();
      job_.coordinator->Ready();
      AwaitStart(signal);
    }
    worker.Run();
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
  const nvtxStringHandle_t restart_name_;
  std::unique_ptr<Heartbeat> heartbeat_;  // null where nobody dies
  std::deque<Lane> lanes_;                // by worker

  std::mutex mutex_;
  std::condition_variable restarted_;
  uint64_t restarts_ = 0;  // written under mutex_ while no worker is there
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
      if (const auto dead = job.coordinator->RestartDue()) {
        job.GoBack(*dead);
        pools.Restart();
      }
      if (!stopping && should_stop()) {
        stopping = true;
        job.coordinator->StopAfterCurrentStep();
      }
    }
  }
  job.checkpoints.reset();  // the last one is written
  if (transport) transport->Close();
  if (totals) {
    totals->restarts = job.restarts();
    if (job.side_work) totals->side_work_slices = job.side_work->slices();
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
