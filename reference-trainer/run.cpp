#include "reference-trainer/run.h"

#include <cblas.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <thread>

#include "reference-trainer/block.h"
#include "reference-trainer/compute_worker.h"
#include "reference-trainer/job.h"
#include "reference-trainer/monolithic_worker.h"
#include "reference-trainer/timing.h"
#include "reference-trainer/update_worker.h"

namespace poolscope::trainer {
namespace {

CodecProbe ProbeBf16(const Job& job) {
  CodecProbe probe;
  probe.ratio = 0.5;
  probe.encode_bytes_per_second = probe.decode_bytes_per_second = kEmulatedCodecBytesPerSecond;
  const auto replica = job.MakeReplica();
  if (!replica) return probe;
  const std::span<const float> values = replica->values();
  constexpr int kRepeats = 5;  // the best of them: the first ones meet cold caches
  std::vector<float> decoded;
  std::string error;
  int64_t encode_ns = INT64_MAX, decode_ns = INT64_MAX;
  for (int i = 0; i < kRepeats; ++i) {
    const int64_t begin = NowNs();
    const Block block = Encode(Codec::kBf16, values);
    const int64_t middle = NowNs();
    Decode(block, decoded, error);
    encode_ns = std::min(encode_ns, middle - begin);
    decode_ns = std::min(decode_ns, NowNs() - middle);
    probe.ratio =
        static_cast<double>(block.bytes.size()) / static_cast<double>(values.size_bytes());
  }
  if (job.options().device == DeviceKind::kEmulated) return probe;
  const auto raw = static_cast<double>(values.size_bytes());
  probe.encode_bytes_per_second = raw * 1e9 / static_cast<double>(std::max<int64_t>(1, encode_ns));
  probe.decode_bytes_per_second = raw * 1e9 / static_cast<double>(std::max<int64_t>(1, decode_ns));
  return probe;
}

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
        RunMonolithic(job_);
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
      W worker(job_, index);
      worker.Probe();
      ready_->arrive_and_wait();
      try {
        worker.Run();
      } catch (const Abandoned&) {
      }
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
                  const ShouldStop& should_stop) {
  constexpr std::chrono::milliseconds kPatience(50);
  openblas_set_num_threads(1);
  UseFineTimers();
  Job job(options, corpus);
  AnnotateSettings(options, ProbeBf16(job));
  AnnotateLinks(job);
  {
    Pools pools(job);
    bool stopping = false;
    while (!job.journal.Drained()) {
      if (const auto record = job.journal.Next(kPatience)) on_step(*record);
      if (!stopping && should_stop()) {
        stopping = true;
        job.StopAfterCurrentStep();
      }
    }
  }
  return job.failure();
}

}  // namespace poolscope::trainer
