#include "reference-trainer/missing_weights.h"

#include <fmt/format.h>

#include "reference-trainer/timing.h"

namespace poolscope::trainer {
namespace {

std::optional<Patience> PatienceOf(const Options& options) {
  const WireOptions& wire = options.reliability.weights;
  if (wire.reliable || options.fetch.on) return std::nullopt;
  return RulesOf(options.reliability, wire, options.weights.shape, 0)->patience;
}

}  // namespace

MissingWeights::MissingWeights(Job& job, size_t worker)
    : job_(job), worker_(worker), patience_(PatienceOf(job.options())) {}

int64_t MissingWeights::AskWhereDue(const std::vector<uint64_t>& held, uint64_t wanted) {
  if (!patience_) return INT64_MAX;
  const int64_t now = NowNs();
  const auto restart = [&] {
    retry_.emplace(*patience_);
    retry_->Tried(now);  // the update worker's own sending
  };
  if (!retry_ || wanted_ != wanted) {
    wanted_ = wanted;
    restart();
  }
  if (now < retry_->due_ns()) return retry_->due_ns();
  if (job_.coordinator->version() < wanted) {
    restart();  // it is not late, it is not made
    return retry_->due_ns();
  }
  for (size_t shard = 0; shard < held.size(); ++shard) {
    if (held[shard] >= wanted) continue;
    if (retry_->exhausted()) {
      job_.coordinator->Fail(
          fmt::format("link {}: version {} from worker {} to worker {} did not get through in {} "
                      "tries (--retransmit-limit)",
                      job_.weights->name(), wanted, shard, worker_, retry_->tries()));
      throw Abandoned{};
    }
    job_.weights->AskAgain(shard, worker_, wanted);
  }
  retry_->Tried(now);
  return retry_->due_ns();
}

}  // namespace poolscope::trainer
