// Whole runs with codecs: what becomes of the loss, the bytes and the time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "reference-trainer/codec_measure.h"
#include "reference-trainer/run.h"
#include "reference-trainer/worker.h"
#include "tests/reference-trainer/text.h"

namespace poolscope::trainer {
namespace {

Codec Of(const std::string& name, CodecUse use) {
  const auto codec = ParseCodec(name, use);
  EXPECT_TRUE(std::holds_alternative<Codec>(codec)) << std::get<std::string>(codec);
  return std::get<Codec>(codec);
}

Options Small(const std::string& gradients, const std::string& weights, uint64_t steps) {
  Options options;
  options.model = {1, 32, 2, 32, 4};
  options.steps = steps;
  options.gradients.codec = Of(gradients, CodecUse::kGradients);
  options.weights.codec = Of(weights, CodecUse::kWeights);
  return options;
}

Options Emulated(Options options) {
  options.devices.compute.kind = options.devices.update.kind = DeviceKind::kEmulated;
  options.forward_seconds = options.backward_seconds = options.update_seconds = 0.001;
  return options;
}

struct Outcome {
  std::vector<StepRecord> records;
  RunTotals totals;

  double FinalLoss() const {
    double sum = 0;
    for (size_t i = records.size() - 20; i < records.size(); ++i) sum += records[i].loss;
    return sum / 20;
  }
};

Outcome TrainAll(const Options& options) {
  Outcome outcome;
  const std::string failure = Train(
      options, options.math ? &Text() : nullptr,
      [&](const StepRecord& record) { outcome.records.push_back(record); }, [] { return false; },
      &outcome.totals);
  EXPECT_EQ(failure, "");
  EXPECT_EQ(outcome.records.size(), options.steps);
  return outcome;
}

double Ratio(const Link::Traffic& traffic) {
  return static_cast<double>(traffic.wire_bytes) / static_cast<double>(traffic.raw_bytes);
}

constexpr uint64_t kSteps = 120;

const Outcome& Plain() {
  static const Outcome outcome = TrainAll(Small("none", "none", kSteps));
  return outcome;
}

TEST(Codecs, Lossless_LeaveTheSynchronousCurveAsItIs) {
  for (const char* name : {"lz4", "zstd", "deflate"}) {
    Options options = Small(name, name, 60);
    options.compute_workers = 3;
    options.update_workers = 2;
    const Outcome outcome = TrainAll(options);
    for (size_t i = 0; i < outcome.records.size(); ++i) {
      const double loss = Plain().records[i].loss;
      ASSERT_NEAR(outcome.records[i].loss, loss, 1e-5 * loss) << name << ", step " << i;
    }
  }
  EXPECT_EQ(Ratio(Plain().totals.gradients), 1);
}

TEST(Codecs, Lossy_SaveTheirBytesAndStillLearn) {
  struct Case {
    const char *gradients, *weights;
    double gradients_ratio, weights_ratio;  // at most
    double loss;                            // at most, relative to none
  };
  // Bounds of ratios by hand: bits a value ÷ 32, and a little for headers and the first delta.
  for (const Case& each :
       {Case{"bf16", "none", 0.5, 1, 1.02}, Case{"fp16", "fp16", 0.501, 0.501, 1.02},
        Case{"topk:0.1", "none", 0.201, 1, 2}, Case{"1bit", "none", 0.04, 1, 2},
        Case{"none", "1bit-delta", 1, 0.04 + 1.0 / kSteps, 1.1},
        Case{"bf16+zstd", "bf16+zstd", 0.45, 0.45, 1.02}}) {
    const Outcome outcome = TrainAll(Small(each.gradients, each.weights, kSteps));
    EXPECT_LE(Ratio(outcome.totals.gradients), each.gradients_ratio) << each.gradients;
    EXPECT_LE(Ratio(outcome.totals.weights), each.weights_ratio) << each.weights;
    EXPECT_LT(outcome.FinalLoss(), each.loss * Plain().FinalLoss()) << each.gradients;
    EXPECT_LT(outcome.FinalLoss(), 0.9 * Text().UnigramEntropy()) << each.gradients;
    size_t different = 0;
    for (size_t i = 0; i < kSteps; ++i) {
      different += outcome.records[i].loss != Plain().records[i].loss ? 1 : 0;
    }
    EXPECT_GT(different, kSteps / 2) << each.gradients;  // it was lossy
  }
}

class Sender : public Worker {
 public:
  explicit Sender(Job& job) : Worker(job, 0, PoolRole::kCompute, *job.compute_signals[0]) {}
  void Probe() override {}
  void Run() override {}

  void SendTo(uint64_t destination, std::span<const float> values) {
    auto message = std::make_unique<Message>();
    message->destination = destination;
    message->raw_bytes = values.size_bytes();
    EXPECT_TRUE(Send(
        *job_.gradients, job_.options().gradients.codec, std::move(message),
        [values] { return values; }, [](OpenWait&) {}));
  }
};

TEST(Codecs, ErrorFeedback_LivesOnWithEachStreamOfAWorker) {
  constexpr size_t kMessages = 30;
  Options options = Small("topk:0.1", "none", 1);  // of ten values one a message
  options.compute_workers = 1;
  options.update_workers = 2;
  options.gradients.shape.depth = kMessages;
  Job job(options, nullptr);
  Sender sender(job);
  const std::vector<float> values = {5, 4, 3, 3, 2, 2, 2, 1, 1, 1};
  for (size_t i = 0; i < kMessages; ++i) {
    sender.SendTo(0, values);
    if (i < 2) sender.SendTo(1, values);
  }
  std::vector<double> sums[2] = {std::vector<double>(10), std::vector<double>(10)};
  for (const auto& [receiver, messages] :
       {std::pair{size_t{0}, kMessages}, {size_t{1}, size_t{2}}}) {
    for (size_t taken = 0; taken < messages;) {
      const uint64_t ticket = job.update_signals[receiver]->Ticket();
      const MessagePtr message = job.gradients->TryTake(receiver);
      if (!message) {
        job.update_signals[receiver]->WaitPast(ticket);
        continue;
      }
      std::vector<float> decoded;
      std::string error;
      ASSERT_TRUE(Decode(message->block, decoded, error)) << error;
      for (size_t i = 0; i < 10; ++i) sums[receiver][i] += decoded[i];
      ++taken;
    }
  }
  // Every value has come, and what is missing of each is less than is due in one round of all.
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_GT(sums[0][i], 0) << i;
    EXPECT_LT(kMessages * values[i] - sums[0][i], 40) << i;
  }
  // The other stream knows nothing of these: 5, then 4 + 4.
  EXPECT_THAT(sums[1], ::testing::ElementsAre(5, 8, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(Codecs, DeltaOfWeightsThatOvertakeEachOther_IsDecodedInFull) {
  // A version a micro-batch and four workers: each finds several versions when it looks.
  Options options = Emulated(Small("none", "1bit-delta", 120));
  options.mode = Mode::kAsync;
  options.micro_batches = 1;
  options.compute_workers = 4;
  options.update_workers = 2;
  options.lag_bound = 6;
  options.forward_seconds = options.backward_seconds = 0.002;
  options.weights.shape.depth = 8;
  const Outcome outcome = TrainAll(options);
  EXPECT_LT(outcome.FinalLoss(), 0.9 * outcome.records.front().loss);
}

TEST(Codecs, OnAnEmulatedDevice_MakeTheWireOfTheRealPayloadsRatio) {
  Options options = Emulated(Small("zstd", "bf16", 20));
  options.gradient_bytes = options.weight_bytes = 10'000'000;
  const Outcome tiny = TrainAll(options);
  EXPECT_EQ(tiny.totals.gradients.raw_bytes, 20u * 2 * 10'000'000);
  EXPECT_EQ(Ratio(tiny.totals.weights), 0.5);
  EXPECT_LT(Ratio(tiny.totals.gradients), 0.97);
  EXPECT_GT(Ratio(tiny.totals.gradients), 0.5);
  options.math = false;
  const Outcome none = TrainAll(options);
  EXPECT_NEAR(Ratio(none.totals.gradients), StatedFigures(options.gradients.codec).ratio, 1e-6);
  EXPECT_EQ(Ratio(none.totals.weights), 0.5);
}

TEST(Codecs, OnAnEmulatedDevice_TakeTheirStatedTime) {
  Options options = Emulated(Small("lz4", "none", 8));
  options.math = false;
  options.compute_workers = 1;
  options.gradient_bytes = 31'000'000;  // 50 ms at 620 MB/s, 10 ms at 3100 MB/s
  const auto records = TrainAll(options).records;
  EXPECT_GE(records.back().end_ns - records.front().end_ns, 7 * 59'000'000LL);
}

TEST(Codecs, Probed_AreThoseInUseAndBf16) {
  Options options = Small("topk:0.01", "1bit-delta+zstd", 1);
  const auto cpu = ProbeCodecs(Job(options, &Text()));
  ASSERT_EQ(cpu.size(), 3u);
  EXPECT_EQ(cpu.at("bf16").ratio, 0.5);
  EXPECT_NEAR(cpu.at("topk:0.01").ratio, 0.02, 1e-3);
  EXPECT_NEAR(cpu.at("1bit-delta+zstd").ratio, 1.25 / 32, 3e-3);
  for (const auto& [name, figures] : cpu) {
    EXPECT_GT(figures.encode_bytes_per_second, 1e6) << name;
    EXPECT_GT(figures.decode_bytes_per_second, 1e6) << name;
  }
  options = Emulated(Small("lz4", "lz4", 1));
  options.math = false;
  const auto emulated = ProbeCodecs(Job(options, nullptr));
  ASSERT_EQ(emulated.size(), 2u);
  EXPECT_DOUBLE_EQ(emulated.at("bf16").encode_bytes_per_second, 50e9);
  EXPECT_DOUBLE_EQ(emulated.at("lz4").encode_bytes_per_second, 620e6);
}

}  // namespace
}  // namespace poolscope::trainer
