#include "tests/support/training_loop.h"

#include "reference-trainer/data.h"

namespace poolscope::trainer {
namespace {

Corpus MadeUp() {
  std::vector<uint8_t> text;
  for (int i = 0; i < 4000; ++i) {
    text.push_back(static_cast<uint8_t>("abc"[i * i % 3]));
    text.push_back(static_cast<uint8_t>('0' + i % 7));
  }
  return {"made up", std::move(text)};
}

}  // namespace

Ranges AllOf(const TrainingCase& training) { return {{0, Parameters(training.shape).size()}}; }

std::vector<double> LossesOf(const TrainingCase& training, Replica& replica,
                             const std::vector<OwnedShard>& shards, int steps) {
  const Corpus corpus = MadeUp();
  const auto micro_batches = static_cast<double>(training.micro_batches);
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    replica.ClearGradients();
    double loss = 0;
    for (size_t m = 0; m < training.micro_batches; ++m) {
      const Batch batch =
          corpus.MicroBatch(training.seed, static_cast<uint64_t>(step) * training.micro_batches + m,
                            training.batch, training.shape.context);
      loss += replica.Forward(batch) / micro_batches;
      replica.Backward();
    }
    losses.push_back(loss);
    for (const OwnedShard& each : shards) {
      each.shard->Add(replica.Gradients(each.ranges));
      each.shard->Update(1 / micro_batches);
      replica.Install(each.ranges, each.shard->values());
    }
  }
  return losses;
}

}  // namespace poolscope::trainer
