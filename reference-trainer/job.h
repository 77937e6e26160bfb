#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "reference-trainer/annotations.h"
#include "reference-trainer/checkpoint.h"
#include "reference-trainer/coordinator.h"
#include "reference-trainer/data.h"
#include "reference-trainer/data_loader.h"
#include "reference-trainer/device.h"
#include "reference-trainer/expert_load.h"
#include "reference-trainer/fetch.h"
#include "reference-trainer/gradient_buckets.h"
#include "reference-trainer/journal.h"
#include "reference-trainer/link.h"
#include "reference-trainer/model/parameters.h"
#include "reference-trainer/model/replica.h"
#include "reference-trainer/model/shard.h"
#include "reference-trainer/options.h"
#include "reference-trainer/placement.h"
#include "reference-trainer/run_totals.h"
#include "reference-trainer/side_work.h"
#include "reference-trainer/transport.h"

namespace poolscope::trainer {

// Thrown inside the workers' threads to unwind them when the run has failed; never leaves them.
struct Abandoned {};
// The same where it begins again (Coordinator::restarting).
struct BeginAgain : Abandoned {};

class CoordinatorServer;

// What all workers of a run share. Members synchronise themselves; the rest is constant.
class Job {
 public:
  // `corpus` is null where nothing is computed; it outlives the job.
  // With a transport the workers are in several processes, each with a job of its own; it outlives
  // the job, is started after it was made and closed before it goes.
  Job(const Options& options, const Corpus* corpus, Transport* transport = nullptr);
  ~Job();

  const Options& options() const { return options_; }
  const GptShape& shape() const { return shape_; }
  bool computes() const { return corpus_ != nullptr; }
  uint64_t tokens_of_micro_batch() const { return options_.model.batch * options_.model.context; }
  // What `tokens` of this model stand for in the emulated one.
  uint64_t StatedTokens(uint64_t tokens) const {
    const EmulatedModel& emulated = options_.devices.model;
    if (emulated.parameters == 0) return tokens;
    return tokens * emulated.batch * emulated.context / tokens_of_micro_batch();
  }

  std::unique_ptr<Device> MakeDevice(PoolRole pool, size_t index) const;
  std::unique_ptr<Replica> MakeReplica(size_t worker = 0) const;  // null where nothing is computed
  std::unique_ptr<Shard> MakeShard(const Ranges& ranges, const OffloadOptions& offload = {},
                                   size_t worker = 0) const;
  // Micro-batch `data` of the corpus; null where nothing is computed. Any thread.
  std::shared_ptr<const Batch> ReadBatch(uint64_t data, uint64_t sequences) const;

  // Bytes before encoding of shard `index`, of all shards.
  uint64_t GradientBytes(size_t index) const;
  uint64_t AllGradientBytes() const;
  uint64_t WeightBytes(size_t index) const;
  // What adding `bytes` of floats to others takes on a compute worker, where that is stated.
  double AddSeconds(uint64_t bytes) const;
  // What `codec` does to the values of a link on these devices, as stated.
  CodecFigures StatedCodec(const Codec& codec, CodecUse use) const;
  // Where its values lie among all; empty where nothing is computed.
  const Ranges& ShardRanges(size_t index) const { return shards_[index]; }
  // Messages that its gradients are, and where the values of each lie.
  uint64_t Pieces(size_t shard) const { return buckets ? buckets->PiecesOf(shard) : 1; }
  const Ranges& PieceRanges(size_t shard, uint64_t piece) const {
    return buckets ? buckets->PieceOf(shard, piece).ranges : shards_[shard];
  }
  // The share of the model that it is, and its optimizer state.
  double ShardShare(size_t index) const { return shares_[index]; }
  const StateSizes& ShardState(size_t index) const { return state_[index]; }
  Ranges AllRanges() const { return {{0, parameters_}}; }

  // Before the workers start: loads what --resume says and prepares the folder of checkpoints. The
  // error, or "".
  std::string OpenCheckpoints();
  // What the run goes on from; where it begins anew, step 0 and no arrays.
  const TrainingState& start() const { return start_; }
  uint64_t tokens_before() const;  // that the updates of start() took

  // Where update worker `dead` has made the run begin again, and all workers have ended: goes back
  // to the newest checkpoint, or else to where this process began.
  void GoBack(uint64_t dead);
  const Restarts& restarts() const { return restarts_; }

  // Of the workers of a pool; null: none.
  SideWork* SideWorkOf(PoolRole pool) const {
    return options_.side_work.pool == pool ? side_work.get() : nullptr;
  }

  // Throws Abandoned where the run has failed, BeginAgain where it begins again. Workers look
  // whenever they wait.
  void CheckRunning() const;

  const Annotations annotations;
  const Placement placement;
  std::vector<std::unique_ptr<Signal>> compute_signals;  // by worker
  std::vector<std::unique_ptr<Signal>> update_signals;
  // When update workers die that are still to, each the concern of its worker.
  std::vector<std::vector<Departure>> update_deaths;
  Journal journal;
  std::unique_ptr<CoordinatorServer> coordinator_server;  // null but where others may ask
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<Link> gradients, weights;        // null in a monolithic run
  std::unique_ptr<Link> all_reduce;                // compute → compute; null without
  std::unique_ptr<const GradientBuckets> buckets;  // null where gradients go out at the end
  std::unique_ptr<ExpertLoad> expert_load;         // null without experts
  std::unique_ptr<DataLoader> loader;              // null: micro-batches are read when computed
  std::unique_ptr<SideWork> side_work;             // null: none
  std::unique_ptr<Fetch> fetch;                    // null where weights are pushed
  std::unique_ptr<Checkpoints> checkpoints;        // null where none are made

 private:
  void MakeCoordinator(Transport* transport);
  std::unique_ptr<Device> MakeEmulatedDevice(PoolRole pool, size_t index) const;
  uint64_t ShardBytes(size_t index, uint64_t emulated_bytes) const;

  mutable std::mutex turns_mutex_;
  mutable std::map<uint64_t, std::shared_ptr<Turns>> turns_;  // by device; guarded by turns_mutex_

  const Options options_;
  const Corpus* const corpus_;
  const GptShape shape_;
  const size_t parameters_;  // 0 where nothing is computed
  // By update worker; one of a monolithic run.
  const std::vector<Ranges> shards_;
  const std::vector<double> shares_;
  const std::vector<StateSizes> state_;
  TrainingState start_;
  Restarts restarts_;
};

}  // namespace poolscope::trainer
