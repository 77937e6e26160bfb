#include "reference-trainer/run.h"

#include <cblas.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <thread>
#include <type_traits>

#include "reference-trainer/codec_measure.h"
#include "reference-trainer/compute_worker.h"
#include "reference-trainer/heartbeat.h"
#include "reference-trainer/job.h"
#include "reference-trainer/monolithic_worker.h"
#include "reference-trainer/timing.h"
#include "reference-trainer/update_worker.h"

namespace poolscope::trainer {
namespace {

void AnnotateLinks(const Job& job) {
  if (!job.gradients) return;
  poolscope_link("gradients", "compute", "update", job.gradients->capacity(),
                 job.gradients->shape().lanes);
  poolscope_link("weights", "update", "compute", job.weights->capacity(),
                 job.weights->shape().lanes);
  if (!job.fetch) return;
  const auto link = [](const Link& each, const char* from) {
    poolscope_link(each.name().c_str(), from, "update", each.capacity(), each.shape().lanes);
  };
  link(*job.fetch->requests, "compute");
  if (job.fetch->replicas) link(*job.fetch->replicas, "update");
}

// Starts the workers' threads; the last one to end closes the journal.
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
        job_.journal.Close();
      });
      return;
    }
    const uint64_t workers = options.compute_workers + options.update_workers;
    ready_ = std::make_unique<std::latch>(static_cast<std::ptrdiff_t>(workers));
    running_ = job.compute_signals.size() + options.update_workers;
    if (!options.schedule.kills.empty()) {
      heartbeat_ = std::make_unique<Heartbeat>(*job.coordinator, options.schedule.lease_seconds);
    }
    for (uint64_t i = 0; i < job.compute_signals.size(); ++i) Start<ComputeWorker>("compute", i);
    for (uint64_t i = 0; i < options.update_workers; ++i) Start<UpdateWorker>("update", i);
  }

  ~Pools() {
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  template <typename W>
  void Start(const char* pool, uint64_t index) {
    threads_.emplace_back([this, pool, index] {
      UseFineTimers();
      if (std::is_same_v<W, UpdateWorker> || AwaitArrival(index)) Live<W>(pool, index);
      if (std::is_same_v<W, ComputeWorker> && job_.fetch) job_.fetch->ComputeWorkerLeft();
      if (--running_ == 0) job_.journal.Close();
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
    const Heartbeat::Pulse pulse(std::is_same_v<W, ComputeWorker> ? heartbeat_.get() : nullptr,
                                 index);
    poolscope_worker(pool, static_cast<unsigned>(index), pool);
    // Others wait for those that are there from the first step on.
    bool awaited = std::is_same_v<W, UpdateWorker> || index < job_.options().compute_workers;
    try {
      W worker(job_, index);
      if (awaited) {
        worker.Probe();
        awaited = false;
        ready_->arrive_and_wait();
      }
      worker.Run();
    } catch (const Abandoned&) {
    } catch (const std::exception& error) {  // it found no place for its state
      job_.coordinator->Fail(error.what());
    }
    if (awaited) ready_->count_down();
  }

  Job& job_;
  std::unique_ptr<std::latch> ready_;
  std::unique_ptr<Heartbeat> heartbeat_;  // null where nobody dies
  std::atomic<uint64_t> running_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

std::string Train(const Options& options, const Corpus* corpus, const OnStep& on_step,
                  const ShouldStop& should_stop, RunTotals* totals) {
  constexpr std::chrono::milliseconds kPatience(50);
  openblas_set_num_threads(1);
  UseFineTimers();
  Job job(options, corpus);
  if (const std::string error = job.OpenCheckpoints(); !error.empty()) return error;
  AnnotateSettings(options, ProbeCodecs(job));
  AnnotateLinks(job);
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
  if (totals) {
    if (job.gradients) totals->gradients = job.gradients->traffic();
    if (job.weights) totals->weights = job.weights->traffic();
    if (job.fetch) totals->fetch = job.fetch->totals();
    if (job.fetch) totals->requests = job.fetch->requests->traffic();
    if (job.expert_load) totals->expert_tokens = job.expert_load->tokens();
  }
  return job.coordinator->failure();
}

}  // namespace poolscope::trainer
