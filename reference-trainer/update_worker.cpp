#include "reference-trainer/update_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "reference-trainer/passes.h"
#include "reference-trainer/timing.h"
#include "reference-trainer/worker_state.h"

namespace poolscope::trainer {

UpdateWorker::UpdateWorker(Job& job, size_t index)
    : Worker(job, index, PoolRole::kUpdate, *job.update_signals[index]),
      shard_(job.MakeShard(job.ShardRanges(index), job.options().state.offload, index)),
      replica_(job.options().rollout.on ? job.MakeReplica() : nullptr) {}

void UpdateWorker::Probe() {
  if (index_ != 0) return;
  ReceiveProbes(*job_.gradients);
  SendProbes(*job_.weights);
}

void UpdateWorker::Run() {
  SampleState(job_, index_);
  TakeUp(job_.start());
  memory_.AtStep(0);
  if (job_.fetch) {
    RunServing();
  } else {
    RunUpdates();
  }
}

void UpdateWorker::RunServing() {
  const bool between = job_.options().fetch.serving == Serving::kBetween;
  server_ = std::make_unique<BlockServer>(job_, index_,
                                          between ? signal_ : *job_.fetch->server_signals[index_]);
  if (between) {
    Publish(job_.start().step);
    RunUpdates();
    return server_->Run();  // for those that are not done yet
  }
  std::jthread thread([this] { Serve(); });
  Publish(job_.start().step);
  RunUpdates();
}

void UpdateWorker::Serve() {
  UseFineTimers();
  nvtxNameOsThreadA(static_cast<uint32_t>(syscall(SYS_gettid)),
                    fmt::format("serve/update/{}", index_).c_str());
  try {
    server_->Run();
  } catch (const Abandoned&) {
  } catch (const std::exception& error) {
    job_.coordinator->Fail(error.what());
  }
}

void UpdateWorker::ServeBetween(OpenWait& wait) {
  if (server_ && job_.options().fetch.serving == Serving::kBetween) server_->Serve(wait);
}

void UpdateWorker::Publish(uint64_t version) {
  const std::span<const float> values = shard_ ? shard_->values() : std::span<const float>{};
  server_->Publish(version, values);
  for (uint64_t copy = 1; copy < job_.options().fetch.replication; ++copy) {
    auto message = std::make_unique<Message>();
    message->destination = (index_ + copy) % job_.options().update_workers;
    message->raw_bytes = job_.WeightBytes(index_);
    message->step = version == 0 ? 0 : version - 1;
    message->version = version;
    Send(
        *job_.fetch->replicas, Codec::kNone, std::move(message), [values] { return values; },
        [this](OpenWait& wait) { ServeBetween(wait); });
  }
}

void UpdateWorker::RunUpdates() {
  uint64_t step = job_.start().step;
  for (; const auto plan = job_.coordinator->BeginStep(step); ++step) {
    const Phase warm_up(index_ == 0 && plan->warm_up ? job_.annotations.warm_up : nullptr);
    Gathered gathered;
    gathered.taken.resize(plan->micro_batches);
    for (;;) {
      MayDie(*plan, gathered);
      if (gathered.micro_batches == plan->micro_batches) break;
      if (const MessagePtr message = Next(step, gathered)) {
        Reduce(*message, step, gathered);
      } else {
        Await(gathered);
      }
    }
    Update(*plan, gathered);
    Give(step + 1, false);
  }
  if (step > job_.start().step) Give(step, true);
  job_.gradients->Close(index_);
}

void UpdateWorker::MayDie(const StepPlan& plan, const Gathered& gathered) {
  std::vector<Departure>& deaths = job_.update_deaths[index_];
  const double progress =
      static_cast<double>(gathered.micro_batches) / static_cast<double>(plan.micro_batches);
  const auto due = std::find_if(deaths.begin(), deaths.end(), [&](const Departure& each) {
    return plan.step > each.step || (plan.step == each.step && progress >= each.progress);
  });
  if (due == deaths.end()) return;
  deaths.erase(due);
  throw Abandoned{};
}

void UpdateWorker::TakeUp(const TrainingState& start) {
  if (start.step == 0) return;
  tokens_ = job_.tokens_before();
  std::span<const float> values;
  std::vector<float> gathered;
  if (shard_) {
    const Ranges& ranges = job_.ShardRanges(index_);
    CopyIn(start, ranges, *shard_);
    const auto sent = start.arrays.find("sent_weights");
    const bool deltas = job_.options().weights.codec.needs_every_message();
    values = deltas && sent != start.arrays.end() ? Gather(sent->second, ranges, gathered)
                                                  : shard_->values();
  }
  if (!job_.fetch) SendWeights(start.step, [values] { return values; });
}

void UpdateWorker::Give(uint64_t step, bool last) {
  GiveShard(job_, *device_, shard_.get(), index_, step, last, [this](TrainingState& state) {
    const auto sent = state.arrays.find("sent_weights");
    if (sent != state.arrays.end()) Scatter(SentValues(), job_.ShardRanges(index_), sent->second);
  });
}

MessagePtr UpdateWorker::Next(uint64_t step, const Gathered& gathered) {
  const auto first = static_cast<uint64_t>(
      std::find(gathered.taken.begin(), gathered.taken.end(), false) - gathered.taken.begin());
  const bool ordered = job_.options().mode == Mode::kSync;
  const auto found = std::find_if(admitted_.begin(), admitted_.end(), [&](const Admitted& each) {
    return each.step == step && (!ordered || each.message->first == first);
  });
  if (found == admitted_.end()) return nullptr;
  MessagePtr message = std::move(found->message);
  admitted_.erase(found);
  return message;
}

void UpdateWorker::Await(Gathered& gathered) {
  OpenWait wait;
  for (;;) {
    const uint64_t ticket = signal_.Ticket();
    job_.CheckRunning();
    const double fill = job_.gradients->Fill(index_);
    if (MessagePtr message = TryReceive(*job_.gradients, wait)) {
      if (job_.options().schedule.dynamic_batch) job_.coordinator->NoteFill(fill);
      if (MessagePtr whole = Completed(std::move(message))) undecided_.push_back(std::move(whole));
      gathered.versions_held = std::max(gathered.versions_held, VersionsHeld());
      Sort();
      return;
    }
    if (Sort()) return;
    ServeBetween(wait);
    WaitOrWork(wait, POOLSCOPE_WAIT_LINK, *job_.gradients, ticket);
  }
}

MessagePtr UpdateWorker::Completed(MessagePtr message) {
  if (!job_.buckets) return message;
  Open(*job_.gradients, *message, SizeOf(job_.PieceRanges(index_, message->part)));
  std::vector<MessagePtr>& pieces = pieces_[message->attempt];
  pieces.push_back(std::move(message));
  if (pieces.size() < job_.Pieces(index_)) return nullptr;
  MessagePtr last = std::move(pieces.back());
  pieces.pop_back();
  last->earlier = std::move(pieces);
  pieces_.erase(last->attempt);
  return last;
}

uint64_t UpdateWorker::VersionsHeld() const {
  std::set<uint64_t> versions;
  for (const MessagePtr& message : undecided_) versions.insert(message->version);
  for (const Admitted& each : admitted_) versions.insert(each.message->version);
  return versions.size();
}

bool UpdateWorker::Sort() {
  // A decision may bring those of deferred messages with it: again until none does.
  bool decided = false;
  while (SortOnce()) decided = true;
  return decided;
}

bool UpdateWorker::SortOnce() {
  std::deque<MessagePtr> deferred;
  bool decided = false;
  for (MessagePtr& message : undecided_) {
    const Admission::Decision decision = job_.coordinator->Ask(message->attempt);
    switch (decision.verdict) {
      case Admission::Verdict::kDeferred:
        deferred.push_back(std::move(message));
        continue;
      case Admission::Verdict::kAccepted:
        if (!job_.buckets) {
          Open(*job_.gradients, *message,
               job_.options().rollout.on ? 0 : SizeOf(job_.ShardRanges(index_)));
        }
        admitted_.push_back({decision.step, std::move(message)});
        break;
      case Admission::Verdict::kDiscarded:
        for (const MessagePtr& piece : message->earlier) Discard(*piece, decision.step);
        Discard(*message, decision.step);
        break;
    }
    decided = true;
  }
  undecided_ = std::move(deferred);
  return decided;
}

void UpdateWorker::Discard(Message& message, uint64_t step) {
  message.applied_version = step;
  const poolscope_transfer discard = message.Annotation(POOLSCOPE_APPLY);
  poolscope_discard(job_.gradients->annotation(), &discard);
}

void UpdateWorker::Reduce(Message& message, uint64_t step, Gathered& gathered) {
  for (const MessagePtr& piece : message.earlier) Add(*piece, step, false);
  Add(message, step, true);
  if (job_.options().rollout.on) {
    ForwardBackward(job_, *device_, signal_, replica_.get(),
                    {step, message.micro_batch, step, message.first, job_.options().model.batch},
                    gathered.loss_sum);
    device_->Synchronize();
  }
  const uint64_t lag = step > message.version ? step - message.version : 0;
  gathered.loss_sum += message.loss_sum;
  gathered.tokens += message.tokens;
  gathered.micro_batches += message.micro_batches;
  for (uint64_t i = 0; i < message.micro_batches && job_.options().mode == Mode::kSync; ++i) {
    gathered.taken[message.first + i * message.stride] = true;
  }
  gathered.messages += 1;
  gathered.lag_sum += lag;
  gathered.lag_max = std::max(gathered.lag_max, lag);
}

void UpdateWorker::Add(Message& message, uint64_t step, bool last) {
  message.applied_version = step;
  Apply(*job_.gradients, message, [&] {
    if (!shard_ || replica_) return;
    if (!job_.buckets) return shard_->Add(message.values);
    sum_.resize(SizeOf(job_.ShardRanges(index_)));
    const size_t at = job_.buckets->PieceOf(index_, message.part).part.begin;
    std::copy(message.values.begin(), message.values.end(),
              sum_.begin() + static_cast<std::ptrdiff_t>(at));
    if (last) shard_->Add(sum_);
  });
}

void UpdateWorker::Update(const StepPlan& plan, const Gathered& gathered) {
  const Options& options = job_.options();
  const uint64_t step = plan.step;
  const uint64_t compute_workers = job_.coordinator->Members(step).size();
  if (replica_) shard_->Add(replica_->Gradients(job_.AllRanges()));
  Optimize(job_, *device_, shard_.get(), index_, plan, gathered.tokens);
  if (replica_) {
    replica_->Install(job_.AllRanges(), shard_->values());
    replica_->ClearGradients();
  }
  if (server_) Publish(step + 1);
  job_.coordinator->Updated(index_);
  if (index_ == 0) {
    StepRecord record;
    record.step = step;
    record.loss = gathered.loss_sum * static_cast<double>(options.model.context) /
                  static_cast<double>(gathered.tokens);
    record.tokens = job_.StatedTokens(gathered.tokens);
    record.tokens_total = tokens_ += record.tokens;
    record.micro_batches = gathered.micro_batches;
    record.compute_workers = compute_workers;
    if (options.mode == Mode::kAsync) record.versions_held = gathered.versions_held;
    record.lag_mean =
        static_cast<double>(gathered.lag_sum) / static_cast<double>(gathered.messages);
    record.lag_max = gathered.lag_max;
    record.discarded = job_.coordinator->discarded();
    TellStep(job_, record, plan);
  }
  if (!server_) {
    SendWeights(step + 1, [this] { return shard_ ? shard_->values() : std::span<const float>{}; });
  }
}

void UpdateWorker::SendWeights(uint64_t version, const Values& values) {
  std::optional<std::span<const float>> read;  // once for all destinations
  const Values once = [&] {
    if (!read) read = values();
    return *read;
  };
  for (const uint64_t worker : job_.coordinator->Members(version)) {
    auto message = std::make_unique<Message>();
    message->destination = worker;
    message->raw_bytes = job_.WeightBytes(index_);
    message->step = version - 1;
    message->version = version;
    Send(*job_.weights, job_.options().weights.codec, std::move(message), once, {});
  }
}

}  // namespace poolscope::trainer
