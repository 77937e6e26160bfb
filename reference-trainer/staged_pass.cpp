#include "reference-trainer/staged_pass.h"

#include <limits>

#include "reference-trainer/expert_load.h"
#include "reference-trainer/model/experts.h"
#include "reference-trainer/model/stages.h"

namespace poolscope::trainer {
namespace {

class StagedPass {
 public:
  StagedPass(const Job& job, Device& device, Replica* replica, const MicroBatch& batch,
             WeightSource* source)
      : job_(job),
        shape_(job.shape()),
        stages_(StagesOf(shape_)),
        device_(device),
        replica_(replica ? replica->staged() : nullptr),
        batch_(batch),
        source_(source),
        plan_(2 * stages_.size() - 1),
        loads_(shape_.layers) {
    for (size_t stage = 0; stage < stages_.size(); ++stage) {
      Plan(stage);
      products_ += ProductsOf(shape_, stages_[stage], {});
    }
  }

  double Run() {
    const Options& options = job_.options();
    const size_t count = stages_.size();
    if (source_) source_->Begin(batch_);
    for (size_t stage = 0; stage < count; ++stage) {
      Run(stage, stage, job_.annotations.forward, options.forward_seconds, [&] {
        if (!replica_) return;
        if (stage == 0) replica_->Begin(*batch_.content);
        replica_->ForwardStage(stage);
      });
      if (stages_[stage].kind == Stage::Kind::kLayer) TakeLoad(stages_[stage].layer);
    }
    // The embedding's backward reads no weights: it goes with that of the stage after it.
    for (size_t stage = count; stage-- > 1;) {
      Run(stage, 2 * count - 1 - stage, job_.annotations.backward, options.backward_seconds, [&] {
        if (!replica_) return;
        replica_->BackwardStage(stage);
        if (stage == 1) replica_->BackwardStage(0);
      });
    }
    if (source_) source_->End();
    return replica_ ? replica_->Loss() : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  // Both places of a stage in the pass, where it has two.
  void Plan(size_t stage) {
    const Groups groups = GroupsOf(shape_, stages_[stage], loads_[stages_[stage].layer]);
    plan_[stage] = groups;
    if (stage > 0) plan_[2 * stages_.size() - 1 - stage] = groups;
  }

  // The experts of `layer` are known now.
  void TakeLoad(size_t layer) {
    if (shape_.experts == 0) return;
    if (replica_) {
      const auto load = replica_->ExpertLoad(layer);
      loads_[layer].assign(load.begin(), load.end());
    } else {
      const Options& options = job_.options();
      loads_[layer] = DrawExpertLoad(shape_, job_.tokens_of_micro_batch(),
                                     (options.seed << 40) + batch_.data * shape_.layers + layer);
    }
    job_.expert_load->Add(loads_[layer]);
    for (size_t stage = 0; stage < stages_.size(); ++stage) {
      if (stages_[stage].kind == Stage::Kind::kExperts && stages_[stage].layer == layer) {
        Plan(stage);
      }
    }
  }

  void Run(size_t stage, size_t place, nvtxStringHandle_t name, double seconds,
           const std::function<void()>& math) {
    if (source_) source_->Need(std::span(plan_).subspan(place));
    const double products = ProductsOf(shape_, stages_[stage], loads_[stages_[stage].layer]);
    poolscope_work work = {};
    work.step = batch_.step;
    work.micro_batch = batch_.number;
    work.version = batch_.version;
    work.scope = POOLSCOPE_PER_MICRO_BATCH;
    Work(device_, name, seconds * products / products_, work, math);
  }

  const Job& job_;
  const GptShape& shape_;
  const std::vector<Stage> stages_;
  Device& device_;
  StagedReplica* const replica_;  // null where nothing is computed
  const MicroBatch& batch_;
  WeightSource* const source_;
  std::vector<Groups> plan_;                  // forward 0..n−1, then backward n−1..1
  std::vector<std::vector<uint64_t>> loads_;  // of the experts, by layer; empty: not known yet
  double products_ = 0;                       // of a pass with an even load
};

}  // namespace

double ForwardBackwardInStages(const Job& job, Device& device, Replica* replica,
                               const MicroBatch& batch, WeightSource* source) {
  return StagedPass(job, device, replica, batch, source).Run();
}

}  // namespace poolscope::trainer
