#pragma once

#include <poolscope/annotate.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "reference-trainer/data.h"
#include "reference-trainer/device.h"
#include "reference-trainer/model/shard.h"
#include "reference-trainer/options.h"
#include "reference-trainer/state_file.h"

namespace poolscope::trainer {

// What must be the same for a run to go on from a checkpoint of another. `corpus` may be null.
StateFolder::Facts FactsOf(const Options& options, const Corpus* corpus);

// The checkpoints that a run makes. At a step that is due each giver copies its part into one
// snapshot, then goes on; the last one's copy starts the writing, on a thread of its own. A giver
// comes to wait where the snapshot before is still being written, and in a full checkpoint, which
// is written while all wait. Any thread may call.
//
//   givers: the update workers; of synchronous training the compute workers too where their streams
//   keep error feedback, or where the checkpoint is full
class Checkpoints {
 public:
  // `fail` is called once where a checkpoint cannot be written; `failed` ends writing, `ending` the
  // givers' waits. The folder has been prepared.
  Checkpoints(const Options& options, StateFolder folder, size_t parameters,
              std::function<void(const std::string&)> fail, std::function<bool()> failed,
              std::function<bool()> ending);
  ~Checkpoints();  // what has been given completely is written before

  // After `step` updates; at the end of the run too.
  bool Due(uint64_t step, bool last) const;
  // Whether compute worker `index` is a giver.
  bool Takes(size_t index) const { return index < compute_givers_; }
  bool full() const { return full_; }

  // `copy` fills in the caller's part of the state after `step` updates, which takes `seconds` on
  // an emulated device. False: the workers are to end.
  bool Give(uint64_t step, Device& device, double seconds,
            const std::function<void(TrainingState&)>& copy);

  // Throws away what only some have given, and waits until the one being written is. No giver may
  // be inside Give.
  void Settle();

 private:
  enum class Phase { kFree, kFilling, kWriting };

  bool WaitUntil(std::unique_lock<std::mutex>& lock, nvtxStringHandle_t name,
                 const std::function<bool()>& done);
  void Write();
  void WriteOne(std::unique_lock<std::mutex>& lock);

  // Constant after construction.
  const CheckpointOptions options_;
  const StateFolder folder_;
  const bool full_;
  const size_t compute_givers_;
  const size_t givers_;
  const double seconds_;  // that writing takes at least
  const std::function<void(const std::string&)> fail_;
  const std::function<bool()> failed_, ending_;
  const nvtxStringHandle_t wait_name_, snapshot_name_, write_name_;
  const uint64_t step_counter_, bytes_counter_;
  // Filled by several givers, each its own part, in kFilling; read by the writer in kWriting.
  TrainingState state_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  Phase phase_ = Phase::kFree;
  uint64_t step_ = 0;   // of the snapshot
  size_t missing_ = 0;  // givers
  bool stopping_ = false;

  std::thread writer_;
};

// A shard's part of the arrays of a state, both ways.
void CopyOut(Shard& shard, const Ranges& ranges, TrainingState& state);
void CopyIn(const TrainingState& state, const Ranges& ranges, Shard& shard);

}  // namespace poolscope::trainer
