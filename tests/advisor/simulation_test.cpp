#include "advisor/simulation.h"

#include <gtest/gtest.h>

// Expected times are worked out by hand from the description of the system in advisor/simulation.h.
namespace poolscope {
namespace {

constexpr double kMs = 1e6;

Operation Constant(const std::string& name, OperationScope scope, double ns) {
  Operation operation;
  operation.name = name;
  operation.scope = scope;
  operation.samples.all = {ns};
  return operation;
}

// C compute and U update workers; links at once unless a test says otherwise.
Model Sync(int compute, int update, int micro_batches, double micro_batch_ms, double update_ms) {
  Model model;
  model.micro_batches = micro_batches;
  model.compute = {"compute", compute, compute, {}, {}};
  model.compute.micro_batch = {
      Constant("forward", OperationScope::kPerMicroBatch, micro_batch_ms * kMs / 3),
      Constant("backward", OperationScope::kPerMicroBatch, micro_batch_ms * kMs * 2 / 3)};
  model.update = {"update", update, update, {}, {}};
  model.update.step = {Constant("optimizer", OperationScope::kPerShard, update_ms * kMs / update)};
  model.gradients.name = "gradients";
  model.weights.name = "weights";
  for (LinkModel* link : {&model.gradients, &model.weights}) {
    link->raw_bytes = 1e6;
    link->depth = 4;
    link->bf16 = {"bf16", 0.5, 0, 0, false};
  }
  return model;
}

double StepMs(const Model& model) {
  const Simulated simulated = Simulate(model, {.seed = 1, .steps = 20});
  EXPECT_TRUE(simulated.finished);
  return simulated.step_ns / kMs;
}

TEST(Simulation, SynchronousStep_IsComputePlusUpdate) {
  // 8 micro-batches on 4 workers: two rounds of 6 ms; 8 ms of update over 2 shards.
  EXPECT_NEAR(StepMs(Sync(4, 2, 8, 6, 8)), 2 * 6 + 4, 1e-6);
}

TEST(Simulation, UnevenMicroBatches_TakeTheRoundsOfTheFullestWorker) {
  EXPECT_NEAR(StepMs(Sync(3, 1, 8, 6, 1)), 3 * 6 + 1, 1e-6);
}

TEST(Simulation, MoreWorkersThanMicroBatches_GainNothing) {
  EXPECT_NEAR(StepMs(Sync(8, 1, 4, 6, 1)), 6 + 1, 1e-6);
}

TEST(Simulation, OneLane_CarriesMessagesOneAfterAnother) {
  Model model = Sync(4, 2, 4, 6, 8);
  model.gradients.ns_per_byte = 1.0;  // 1 MB from each worker: 1 ms each, 4 in all
  model.gradients.latency_ns = 2 * kMs;
  // All four hand over at once; the second shard's last message arrives after 4 ms + latency.
  EXPECT_NEAR(StepMs(model), 6 + 4 + 2 + 4, 1e-6);
}

TEST(Simulation, FourLanes_CarryFourAtOnce) {
  Model model = Sync(4, 1, 4, 6, 4);
  model.gradients.ns_per_byte = 1.0;
  model.gradients.lanes = 4;
  EXPECT_NEAR(StepMs(model), 6 + 1 + 4, 1e-6);
}

TEST(Simulation, Latency_DoesNotOccupyTheLane) {
  Model model = Sync(4, 1, 4, 6, 4);
  model.gradients.latency_ns = 5 * kMs;
  EXPECT_NEAR(StepMs(model), 6 + 5 + 4, 1e-6);
}

TEST(Simulation, DepthOne_MakesEverySenderPayTheLatency) {
  Model model = Sync(4, 1, 4, 6, 4);
  model.gradients.latency_ns = 5 * kMs;
  model.gradients.depth = 1;  // the slot is free only when the message before has been taken
  EXPECT_NEAR(StepMs(model), 6 + 4 * 5 + 4, 1e-6);
  model.gradients.depth = 2;
  EXPECT_NEAR(StepMs(model), 6 + 2 * 5 + 4, 1e-6);
}

TEST(Simulation, Codec_HalvesTheBytesAndCostsBothEnds) {
  Model model = Sync(1, 1, 1, 6, 4);
  model.gradients.ns_per_byte = 10;                        // 10 ms
  model.gradients.codec = {"bf16", 0.5, 1.0, 2.0, false};  // encode 1 ms, decode 2 ms
  EXPECT_NEAR(StepMs(model), 6 + 1 + 5 + 2 + 4, 1e-6);
}

TEST(Simulation, ShardedUpdate_TakesItsShareOfTheTime) {
  Model model = Sync(2, 1, 2, 6, 12);
  model.update.workers = 3;  // measured with one
  EXPECT_NEAR(StepMs(model), 6 + 4, 1e-6);
}

TEST(Simulation, StatesAddUp_AndBusyIsTheWorkDone) {
  const Simulated s = Simulate(Sync(4, 2, 8, 6, 8), {.seed = 1, .steps = 20});
  EXPECT_NEAR(s.compute.busy, 12.0 / 16, 1e-9);
  EXPECT_NEAR(s.update.busy, 4.0 / 16, 1e-9);
  for (const SimulatedStates& states : {s.compute, s.update}) {
    EXPECT_NEAR(
        states.busy + states.blocked_link + states.wait_link + states.wait_credit + states.other, 1,
        1e-9);
  }
}

TEST(Simulation, Asynchronous_IsBoundByTheSlowerPool) {
  Model model = Sync(4, 2, 8, 6, 8);
  model.async = true;
  model.lag_bound = 2;
  // Compute alone: 8 x 6 ms over 4 workers = 12 ms a step; update alone: 4 ms.
  EXPECT_NEAR(StepMs(model), 12, 0.2);
  model.update.step = {Constant("optimizer", OperationScope::kPerShard, 20 * kMs)};
  EXPECT_NEAR(StepMs(model), 20, 0.2);
}

TEST(Simulation, AsynchronousLagZero_IsAsSlowAsSynchronous) {
  Model model = Sync(4, 2, 8, 6, 8);
  model.async = true;
  model.lag_bound = 0;
  EXPECT_NEAR(StepMs(model), 16, 0.2);
}

TEST(Simulation, Asynchronous_LetsTheNextResourceBecomeTheLimit) {
  // A link that takes 30 ms a step hides compute of 12; without it compute limits, not zero.
  Model model = Sync(4, 1, 8, 6, 2);
  model.async = true;
  model.lag_bound = 2;
  model.gradients.ns_per_byte = 30.0 / 8;  // 8 messages of 1 MB
  EXPECT_NEAR(StepMs(model), 30, 2);       // 2 ms of update are not hidden at this lag
  model.gradients.codec = {"bf16", 0.1, 0, 0, false};
  EXPECT_NEAR(StepMs(model), 12, 0.3);
}

TEST(Simulation, SharedCores_SlowEverybodyDown) {
  Model model = Sync(4, 1, 4, 6, 4);
  for (Operation& operation : model.compute.micro_batch) operation.on_cores = true;
  model.cores = 2;  // four workers on two cores: half the speed each
  EXPECT_NEAR(StepMs(model), 12 + 4, 1e-5);
}

TEST(Simulation, SameSeed_SameResult) {
  Model model = Sync(4, 2, 8, 6, 8);
  model.compute.micro_batch[0].samples.all = {1e6, 2e6, 3e6, 9e6};
  const Simulated a = Simulate(model, {.seed = 3});
  const Simulated b = Simulate(model, {.seed = 3});
  const Simulated c = Simulate(model, {.seed = 4});
  EXPECT_EQ(a.step_ns, b.step_ns);
  EXPECT_EQ(a.gradients.depth, b.gradients.depth);
  EXPECT_NE(a.step_ns, c.step_ns);
}

TEST(Simulation, EveryStalePolicy_GoesOn) {
  for (StalePolicy stale :
       {StalePolicy::kWait, StalePolicy::kDrop, StalePolicy::kRecompute, StalePolicy::kApply}) {
    Model model = Sync(6, 3, 4, 6, 30);
    model.compute.micro_batch[0].samples.all = {1e6, 2e6, 3e6, 20e6};
    model.async = true;
    model.stale = stale;
    model.gradients.depth = 1;
    model.weights.depth = 1;
    const Simulated s = Simulate(model, {.seed = 2});
    EXPECT_TRUE(s.finished) << static_cast<int>(stale);
    EXPECT_GT(s.accepted, 0);
    EXPECT_LE(s.accepted, 1);
  }
}

}  // namespace
}  // namespace poolscope
