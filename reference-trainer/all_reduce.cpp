#include "reference-trainer/all_reduce.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "reference-trainer/model/ranges.h"
#include "reference-trainer/passes.h"

namespace poolscope::trainer {

AllReduce::AllReduce(Job& job, Worker& worker, size_t index, Device& device, Signal& signal)
    : job_(job), worker_(worker), index_(index), device_(device), signal_(signal) {}

void AllReduce::Run(uint64_t ranks, MessageFields& sum, std::span<const float> values) {
  struct Told {
    double loss_sum;
    uint64_t micro_batches, tokens;
  };
  const Told own{sum.loss_sum, sum.micro_batches, sum.tokens};
  Told passed_on = own;  // with a chunk: of the ranks that it comes from
  values_.assign(values.begin(), values.end());
  OpenWait wait;
  wait.Begin(POOLSCOPE_WAIT_PEER, job_.annotations.all_reduce);
  for (uint64_t hop = 0; hop + 2 < 2 * ranks; ++hop) {
    const bool adds = hop + 1 < ranks;
    const uint64_t chunk = (index_ + 2 * ranks - hop) % ranks;
    auto message = std::make_unique<Message>();
    message->source = index_;
    message->destination = (index_ + 1) % ranks;
    message->sequence = job_.all_reduce->NextSequence(index_);
    message->step = sum.step;
    message->version = sum.version;
    message->part = hop;
    message->raw_bytes = message->wire_bytes = PartOf(job_.AllGradientBytes(), chunk, ranks).size();
    message->loss_sum = passed_on.loss_sum;
    message->micro_batches = passed_on.micro_batches;
    message->tokens = passed_on.tokens;
    const Part out = PartOf(values_.size(), chunk, ranks);
    message->block = Encode(Codec::kNone, std::span(values_).subspan(out.begin, out.size()));
    worker_.HandOver(*job_.all_reduce, std::move(message), {}, false);

    const MessagePtr piece = Take(sum.step, hop);
    const uint64_t arrived = (chunk + ranks - 1) % ranks;
    const Part in = PartOf(values_.size(), arrived, ranks);
    std::string error;
    if (!Decode(piece->block, piece->values, error) || piece->values.size() != in.size()) {
      job_.coordinator->Fail("a piece on link allreduce is damaged: " + error);
      throw Abandoned{};
    }
    const auto place = values_.begin() + static_cast<std::ptrdiff_t>(in.begin);
    passed_on = {piece->loss_sum, piece->micro_batches, piece->tokens};
    if (adds) {
      wait.End();
      poolscope_work work = {sum.step, POOLSCOPE_NO_VALUE, sum.version, POOLSCOPE_FIXED, 0};
      Work(device_, job_.annotations.reduce, job_.AddSeconds(piece->raw_bytes), work, [&] {
        std::transform(piece->values.begin(), piece->values.end(), place, place, std::plus<>());
      });
      wait.Begin(POOLSCOPE_WAIT_PEER, job_.annotations.all_reduce);
      passed_on.loss_sum += own.loss_sum;
      passed_on.micro_batches += own.micro_batches;
      passed_on.tokens += own.tokens;
    } else {
      std::copy(piece->values.begin(), piece->values.end(), place);
    }
    if (arrived == 0) {  // its last one is of all ranks, added in their order
      sum.loss_sum = passed_on.loss_sum;
      sum.micro_batches = passed_on.micro_batches;
      sum.tokens = passed_on.tokens;
    }
  }
}

MessagePtr AllReduce::Take(uint64_t step, uint64_t hop) {
  for (;;) {
    const uint64_t ticket = signal_.Ticket();
    job_.CheckRunning();
    while (MessagePtr piece = job_.all_reduce->TryTake(index_)) early_.push_back(std::move(piece));
    const auto found = std::find_if(early_.begin(), early_.end(), [&](const MessagePtr& piece) {
      return piece->step == step && piece->part == hop;
    });
    if (found != early_.end()) {
      MessagePtr piece = std::move(*found);
      early_.erase(found);
      return piece;
    }
    device_.Waited();
    signal_.WaitPast(ticket);
  }
}

}  // namespace poolscope::trainer
