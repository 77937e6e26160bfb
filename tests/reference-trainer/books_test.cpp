// Workers that come, leave and die at any moment, between any two messages: the books of both modes
// lose no micro-batch, count none twice, and all shards agree.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "reference-trainer/admission.h"
#include "reference-trainer/step_shares.h"

namespace poolscope::trainer {
namespace {

using Start = Admission::Start;
using Verdict = Admission::Verdict;

constexpr uint64_t kShards = 2;
constexpr uint64_t kSteps = 12;

// A run by random moves, one small thing at a time.
class Chaos {
 public:
  Chaos(uint32_t seed, bool asynchronous)
      : random_(seed),
        asynchronous_(asynchronous),
        bound_(asynchronous ? random_() % 3 : 0),
        pace_(PaceOf()),
        membership_(1 + random_() % 4, Joins(), {}),
        shares_({kSteps, kShards, true}, pace_, membership_),
        admission_({kSteps, Stale::kWait, kShards, true}, pace_),
        workers_(membership_.workers()) {
    for (Shard& shard : shards_) shard.taken.resize(kSteps);
  }

  // Whether all steps were made.
  bool Run() {
    for (int moves = 0; moves < 100'000 && Version() < kSteps; ++moves) Move();
    return Version() == kSteps;
  }

  void Check() {
    for (const uint64_t worker : late_) Void(worker);
    for (uint64_t step = 0; step < kSteps; ++step) {
      const StepPlan plan = pace_.Plan(step);
      EXPECT_EQ(shards_[0].taken[step], shards_[1].taken[step]) << "step " << step;
      EXPECT_EQ(shards_[0].taken[step].size(), plan.micro_batches);
      for (const uint64_t data : shards_[0].taken[step]) {
        EXPECT_TRUE(all_.insert(data).second) << data << " counts twice";
        if (!asynchronous_) {
          EXPECT_EQ((data - plan.first) / plan.micro_batches, 0u);
        }
      }
    }
    EXPECT_EQ(*all_.rbegin(), all_.size() - 1) << "none is left out";
    if (asynchronous_) {
      EXPECT_EQ(admission_.credits(), static_cast<int64_t>(Window())) << "all came back";
    }
  }
  uint64_t deaths() const { return deaths_; }

 private:
  struct Worker {
    std::optional<Admission::Attempt> attempt;
    uint64_t sent = 0;  // shards that have it
    uint64_t held = 0;
    bool dead = false;     // not known yet
    bool dropped = false;  // taken for dead
  };
  struct Message {
    uint64_t number;
    Admission::Attempt attempt;
  };
  struct Shard {
    std::deque<Message> arrived;
    std::vector<std::set<uint64_t>> taken;  // data, by step
    uint64_t version = 0;
  };

  Pace::Rules PaceOf() {
    Pace::Rules rules;
    rules.steps = kSteps;
    rules.micro_batches = 1 + random_() % 5;
    rules.lag_bound = bound_;
    rules.warm_up_steps = random_() % 3;
    rules.adaptive_updates = random_() % 2 == 0;
    rules.adaptive_max = 9;
    return rules;
  }
  std::vector<Arrival> Joins() {
    std::vector<Arrival> joins;
    for (uint64_t step = 1; step < kSteps; ++step) {
      if (random_() % 3 == 0) joins.push_back({1 + random_() % 2, step});
    }
    return joins;
  }
  uint64_t Version() const { return std::min(shards_[0].version, shards_[1].version); }
  uint64_t Window() {
    uint64_t sum = 0;
    for (uint64_t s = kSteps; s <= kSteps + bound_; ++s) sum += pace_.Plan(s).micro_batches;
    return sum;
  }
  void Void(uint64_t worker) { asynchronous_ ? admission_.Void(worker) : shares_.Void(worker); }

  void Move() {
    const uint64_t id = random_() % workers_.size();
    Worker& worker = workers_[id];
    const uint32_t what = random_() % 12;
    if (what < 6) {
      Work(id, worker);
    } else if (what == 6 && random_() % 20 == 0 && membership_.present() > 1 && !worker.dropped &&
               membership_.Of(id) == Presence::kPresent) {
      worker.dead = random_() % 3 != 0;  // else it lives, and is only taken for dead
      worker.dropped = true;
      late_.push_back(id);
      ++deaths_;
      membership_.Drop(id);
    } else if (what == 7 && !late_.empty()) {
      Void(late_.front());
      late_.pop_front();
    } else if (what == 8) {
      worker.held = std::max(worker.held, Version());
    } else {
      Take(shards_[random_() % kShards]);
    }
  }

  void Work(uint64_t id, Worker& worker) {
    if (worker.dead) return;
    if (!worker.attempt) {
      if (membership_.Of(id) != Presence::kPresent || worker.held < membership_.FirstStep(id)) {
        return;
      }
      const auto attempt =
          asynchronous_ ? admission_.TryStart(id, worker.held) : shares_.TryStart(id, worker.held);
      if (attempt.start != Start::kStarted) return;
      worker.attempt = attempt;
      worker.sent = 0;
    } else if (worker.sent < kShards) {
      auto& queue = shards_[worker.sent++].arrived;  // anywhere in it: messages overtake
      queue.insert(queue.begin() + static_cast<std::ptrdiff_t>(random_() % (queue.size() + 1)),
                   {worker.attempt->number, *worker.attempt});
    } else {
      asynchronous_ ? admission_.HandedOver(worker.attempt->number)
                    : shares_.HandedOver(worker.attempt->number);
      worker.attempt.reset();
    }
  }

  void Take(Shard& shard) {
    for (bool decided = true; decided;) {
      decided = false;
      for (size_t i = 0; i < shard.arrived.size(); ++i) {
        const Message message = shard.arrived[i];
        const auto decision =
            asynchronous_ ? admission_.Ask(message.number) : shares_.Ask(message.number);
        if (decision.verdict == Verdict::kDeferred) continue;
        shard.arrived.erase(shard.arrived.begin() + static_cast<std::ptrdiff_t>(i));
        decided = true;
        if (decision.verdict == Verdict::kDiscarded) break;
        EXPECT_LE(decision.lag, pace_.Plan(message.attempt.version).lag_bound);
        for (uint64_t m = 0; m < message.attempt.micro_batches; ++m) {
          const uint64_t data = message.attempt.data + m * message.attempt.stride;
          EXPECT_TRUE(shard.taken[decision.step].insert(data).second);
        }
        break;
      }
    }
    if (shard.version == kSteps) return;
    if (shard.taken[shard.version].size() < pace_.Plan(shard.version).micro_batches) return;
    const uint64_t before = Version();
    pace_.NoteNorm(shard.version, 1.0 + random_() % 3);
    ++shard.version;
    membership_.Members(shard.version);
    if (Version() > before && asynchronous_) admission_.Updated();
  }

  std::mt19937 random_;
  const bool asynchronous_;
  const uint64_t bound_;
  Pace pace_;
  Membership membership_;
  StepShares shares_;
  Admission admission_;
  std::vector<Worker> workers_;
  Shard shards_[kShards];
  std::deque<uint64_t> late_;  // dropped, of whom the books do not know yet
  std::set<uint64_t> all_;
  uint64_t deaths_ = 0;
};

TEST(Books, WithWorkersThatComeLeaveAndDie_CountEveryMicroBatchOnce) {
  for (const bool asynchronous : {false, true}) {
    uint64_t deaths = 0;
    for (uint32_t seed = 0; seed < 300; ++seed) {
      Chaos chaos(seed, asynchronous);
      ASSERT_TRUE(chaos.Run()) << "stuck, seed " << seed << (asynchronous ? " async" : " sync");
      chaos.Check();
      if (HasFailure()) FAIL() << "seed " << seed << (asynchronous ? " async" : " sync");
      deaths += chaos.deaths();
    }
    EXPECT_GT(deaths, 300u);
  }
}

}  // namespace
}  // namespace poolscope::trainer
