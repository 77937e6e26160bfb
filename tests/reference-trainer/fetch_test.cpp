// Whole runs with parameter fetch: what crosses the links, who serves it, and that nothing else
// changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "reference-trainer/run.h"
#include "tests/reference-trainer/training.h"

namespace poolscope::trainer {
namespace {

Options Fetching(Options options) {
  options.fetch.on = true;
  options.weights.shape.depth = 8;
  return options;
}

Options ShortSync() {
  Options options = Small(Mode::kSync);
  options.steps = 20;
  options.update_workers = 2;
  return options;
}

struct Outcome {
  std::vector<StepRecord> records;
  RunTotals totals;

  double MedianStepSeconds() const {
    std::vector<int64_t> ns;
    for (size_t i = 1; i < records.size(); ++i) {
      ns.push_back(records[i].end_ns - records[i - 1].end_ns);
    }
    std::sort(ns.begin(), ns.end());
    return static_cast<double>(ns[ns.size() / 2]) / 1e9;
  }
};

Outcome RunOf(const Options& options) {
  Outcome outcome;
  outcome.records = TrainAll(options, Text(), &outcome.totals);
  return outcome;
}

void ExpectSameLosses(const Outcome& outcome, const Outcome& expected) {
  ASSERT_EQ(outcome.records.size(), expected.records.size());
  for (size_t i = 0; i < expected.records.size(); ++i) {
    ASSERT_EQ(outcome.records[i].loss, expected.records[i].loss) << "step " << i;
    ASSERT_EQ(outcome.records[i].lag_max, 0u);
  }
}

TEST(Fetch, SynchronousLoss_IsThatOfPushedWeightsToTheBit) {
  const Outcome pushed = RunOf(ShortSync());
  for (const uint64_t cache : {0, 99}) {
    for (const uint64_t prefetch : {0, 3}) {
      for (const Serving serving : {Serving::kThread, Serving::kBetween}) {
        Options options = Fetching(ShortSync());
        options.fetch.cache_blocks = cache;
        options.fetch.prefetch_depth = prefetch;
        options.fetch.serving = serving;
        options.fetch.replication = prefetch > 0 ? 2 : 1;
        ExpectSameLosses(RunOf(options), pushed);
      }
    }
  }
}

TEST(Fetch, SynchronousLossWithExperts_IsThatOfPushedWeightsToTheBit) {
  Options options = ShortSync();
  options.model.experts = {4, 1, 1, 0.01};
  const Outcome pushed = RunOf(options);
  ExpectSameLosses(RunOf(Fetching(options)), pushed);
}

TEST(Fetch, WithWorkersThatLeaveJoinAndDie_HasTheSameLoss) {
  Options options = ShortSync();
  const Outcome pushed = RunOf(options);
  options.compute_workers = 3;
  options.schedule.leaves = {{2, 6, 0}};
  options.schedule.joins = {{1, 10}};
  options.schedule.kills = {{1, 4, 0.5}};
  options.schedule.lease_seconds = 0.3;
  const Outcome outcome = RunOf(Fetching(options));
  for (size_t i = 0; i < pushed.records.size(); ++i) {
    ASSERT_NEAR(outcome.records[i].loss, pushed.records[i].loss, 1e-5 * pushed.records[i].loss);
  }
}

TEST(Fetch, Cache_SavesBytesOnTheWire) {
  const auto bytes = [](uint64_t cache) {
    Options options = Fetching(ShortSync());
    options.fetch.cache_blocks = cache;
    return RunOf(options).totals.weights.wire_bytes;
  };
  const uint64_t none = bytes(0), some = bytes(2), all = bytes(99);
  // All: each of two workers gets each parameter once a step.
  EXPECT_EQ(all, 20 * 2 * Parameters(ShapeOf(ShortSync().model)).size() * sizeof(float));
  // None: twice in each of its two micro-batches, but for the head and what is next to it.
  EXPECT_GT(none, 2 * all);
  EXPECT_LT(some, none);
  EXPECT_GT(some, all);
}

TEST(Fetch, BlocksHeld_AreBounded) {
  Options options = Fetching(ShortSync());
  options.model.layers = 4;
  options.update_workers = 1;
  // One stage in use, of at most 2 blocks, 2 stages ahead, the cache.
  for (const uint64_t cache : {0, 2}) {
    options.fetch.prefetch_depth = 2;
    options.fetch.cache_blocks = cache;
    const FetchTotals totals = RunOf(options).totals.fetch.value();
    EXPECT_LE(totals.most_resident, 4 + cache);
    EXPECT_GE(totals.most_resident, 3 + cache);
  }
}

TEST(Fetch, Prefetch_HidesTheLatencyOfALink) {
  // 10 stages of 2 to 4 ms, and a round trip of 6: hidden two stages ahead, exposed without.
  const auto seconds = [](uint64_t depth) {
    Options options = Fetching(Emulated(Mode::kAsync));
    options.steps = 12;
    options.compute_workers = 2;
    options.model.layers = 4;
    options.model.width = 128;
    options.forward_seconds = 0.010;
    options.backward_seconds = 0.020;
    options.weights.shape.latency_ns = options.requests.shape.latency_ns = 3'000'000;
    options.fetch.prefetch_depth = depth;
    return RunOf(options).MedianStepSeconds();
  };
  const double none = seconds(0), two = seconds(2);
  EXPECT_GT(none / two, 1.4);
}

TEST(Fetch, Experts_AreFetchedOnlyWhereTokensChoseThem) {
  Options options = Fetching(Emulated(Mode::kSync));
  options.steps = 10;
  options.model.experts = {4, 1, 60, 0};  // all go to the first
  const RunTotals totals = RunOf(options).totals;
  EXPECT_EQ(totals.expert_tokens[0],
            std::accumulate(totals.expert_tokens.begin(), totals.expert_tokens.end(), 0ULL));
  uint64_t hot = 0, cold = 0;
  for (const FetchTotals::Group& group : totals.fetch.value().hottest) {
    if (group.name == "layer0.expert0") hot = group.uses;
    if (group.name == "layer0.expert1") cold = group.uses;
  }
  EXPECT_EQ(hot, 10u * 4 * 2);  // forward and backward
  EXPECT_EQ(cold, 0u);
}

TEST(Fetch, LeastLoadedOfTwoHolders_SpreadsWhatAHotShardServes) {
  const auto hottest_share = [](uint64_t replication, Routing routing) {
    Options options = Fetching(Emulated(Mode::kAsync));
    options.steps = 15;
    options.compute_workers = 4;
    options.update_workers = 4;
    options.model.layers = 1;
    options.model.experts = {8, 1, 60, 0};
    options.weight_bytes = 8'000'000;
    options.fetch.replication = replication;
    options.fetch.routing = routing;
    options.fetch.serve_bytes_per_second = 1e9;
    uint64_t most = 0, all = 0;
    const RunTotals totals = RunOf(options).totals;
    for (const FetchTotals::Server& server : totals.fetch.value().servers) {
      most = std::max(most, server.requests);
      all += server.requests;
    }
    return static_cast<double>(most) / static_cast<double>(all);
  };
  const double alone = hottest_share(1, Routing::kNearest);
  const double spread = hottest_share(2, Routing::kLeastLoaded);
  EXPECT_GT(alone, 0.4);
  EXPECT_LT(spread, 0.8 * alone);
}

TEST(Fetch, LeastLoadedHolder_IsTheOneWithTheFewestBytesOnTheirWay) {
  Options options = Fetching(Emulated(Mode::kSync));
  options.update_workers = 3;
  options.fetch.replication = 3;
  Signal signals[3];
  for (const Routing routing : {Routing::kNearest, Routing::kLeastLoaded}) {
    options.fetch.routing = routing;
    Fetch fetch(options, 1, {&signals[0], &signals[1], &signals[2]}, {});
    std::vector<size_t> asked(3, 0);
    for (int i = 0; i < 6; ++i) ++asked[fetch.Ask(0, 0)];
    EXPECT_EQ(asked, routing == Routing::kNearest ? (std::vector<size_t>{0, 6, 0})
                                                  : (std::vector<size_t>{2, 2, 2}));
    if (routing == Routing::kNearest) continue;
    fetch.Arrived(0, 2);
    EXPECT_EQ(fetch.Ask(0, 0), 2u);
  }
}

TEST(Fetch, RepeatedRequests_AreAnsweredOnceAndChangeNothing) {
  Options options = Fetching(ShortSync());
  options.fetch.timeout_ns = 500'000;
  options.weights.shape.latency_ns = 2'000'000;
  const Outcome outcome = RunOf(options);
  EXPECT_GT(outcome.totals.fetch.value().asked_again, 10u);
  ExpectSameLosses(outcome, RunOf(ShortSync()));
}

TEST(Fetch, Asynchronous_KeepsTheLagBoundByItsOldestBlock) {
  for (const uint64_t bound : {0, 2}) {
    Options options = Fetching(Emulated(Mode::kAsync));
    options.lag_bound = bound;
    options.update_workers = 2;
    options.jitter = 0.5;
    options.fetch.cache_blocks = 4;
    uint64_t most = 0;
    const Outcome outcome = RunOf(options);
    for (const StepRecord& record : outcome.records) most = std::max(most, record.lag_max);
    EXPECT_LE(most, bound);
    EXPECT_EQ(most > 0, bound > 0);
  }
}

TEST(Fetch, WithBuffersOfOne_DoesNotDeadlock) {
  for (const Serving serving : {Serving::kThread, Serving::kBetween}) {
    Options options = Fetching(Emulated(Mode::kAsync));
    options.compute_workers = 12;
    options.update_workers = 3;
    options.model.layers = 3;
    options.fetch.prefetch_depth = 4;
    options.fetch.replication = 3;
    options.fetch.serving = serving;
    for (Link::Shape* each : {&options.weights.shape, &options.gradients.shape,
                              &options.requests.shape, &options.replicas.shape}) {
      each->depth = 1;
      each->bytes_per_second = 1e9;
    }
    RunOf(options);
  }
}

TEST(Fetch, Stopped_EndsAfterAWholeStep) {
  for (const Mode mode : {Mode::kSync, Mode::kAsync}) {
    Options options = Fetching(Emulated(mode));
    options.update_workers = 2;
    options.compute_workers = 6;  // more than there are micro-batches
    ExpectStops(options);
  }
}

}  // namespace
}  // namespace poolscope::trainer
