#include "reference-trainer/run.h"

#include <cblas.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <thread>

#include "reference-trainer/codec_measure.h"
#include "reference-trainer/compute_worker.h"
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
        } catch (const std::exception& error) {
          job_.coordinator->Fail(error.what());
        }
        job_.journal.Close();
      });
      return;
    }
    const uint64_t workers = options.compute_workers + options.update_workers;
    ready_ = std::make_unique<std::latch>(static_cast<std::ptrdiff_t>(workers));
    running_ = workers;
    for (uint64_t i = 0; i < options.compute_workers; ++i) Start<ComputeWorker>("compute", i);
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
      poolscope_worker(pool, static_cast<unsigned>(index), pool);
      bool begun = false;  // others wait for it
      try {
        W worker(job_, index);
        worker.Probe();
        begun = true;
        ready_->arrive_and_wait();
        worker.Run();
      } catch (const Abandoned&) {
      } catch (const std::exception& error) {  // it found no place for its state
        job_.coordinator->Fail(error.what());
      }
      if (!begun) ready_->count_down();
      if (--running_ == 0) job_.journal.Close();
    });
  }

  Job& job_;
  std::unique_ptr<std::latch> ready_;
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
  AnnotateSettings(options, ProbeCodecs(job));
  AnnotateLinks(job);
  {
    Pools pools(job);
    bool stopping = false;
    while (!job.journal.Drained()) {
      if (const auto record = job.journal.Next(kPatience)) on_step(*record);
      if (!stopping && should_stop()) {
        stopping = true;
        job.coordinator->StopAfterCurrentStep();
      }
    }
  }
  if (totals) {
    if (job.gradients) totals->gradients = job.gradients->traffic();
    if (job.weights) totals->weights = job.weights->traffic();
    if (job.expert_load) totals->expert_tokens = job.expert_load->tokens();
  }
  return job.coordinator->failure();
}

}  // namespace poolscope::trainer
