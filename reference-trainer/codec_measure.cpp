#include "reference-trainer/codec_measure.h"

#include <algorithm>
#include <cmath>

#include "reference-trainer/timing.h"

namespace poolscope::trainer {
namespace {

double Rate(double bytes, int64_t ns) {
  return bytes * 1e9 / static_cast<double>(std::max<int64_t>(1, ns));
}

double SquaredNorm(const std::vector<double>& values) {
  double squares = 0;
  for (const double each : values) squares += each * each;
  return squares;
}

double Relative(double error_squares, double squares) {
  return squares > 0 ? std::sqrt(error_squares / squares) : 0;
}

// What two ends of a run's links would exchange before any training.
struct Payloads {
  std::vector<float> gradients, weights_before, weights_after;
};

Payloads PayloadsOf(const Job& job, bool of_an_update) {
  Payloads payloads;
  const auto replica = job.MakeReplica();
  if (!replica) return payloads;
  const auto shard = job.MakeShard(job.AllRanges());
  payloads.weights_before.assign(shard->values().begin(), shard->values().end());
  if (!of_an_update) return payloads;
  const auto batch = job.ReadBatch(0, job.options().model.batch);
  replica->Forward(*batch);
  replica->Backward();
  const auto gradients = replica->Gradients(job.AllRanges());
  payloads.gradients.assign(gradients.begin(), gradients.end());
  shard->Add(payloads.gradients);
  shard->Update(1);
  payloads.weights_after.assign(shard->values().begin(), shard->values().end());
  return payloads;
}

// The first message of a stream is not like the others, and finds cold caches.
CodecFigures Measure(const Codec& codec, std::span<const float> first,
                     std::span<const float> later) {
  constexpr int kMessages = 5;
  StreamMeasure stream(codec);
  std::string error;
  stream.Add(first, error);
  stream.StartCounting();
  for (int i = 0; i < kMessages; ++i) stream.Add(later, error);
  return stream.Figures();
}

}  // namespace

bool StreamMeasure::Add(std::span<const float> values, std::string& error) {
  std::vector<float> decoded;
  const int64_t begin = NowNs();
  const Block block = encoder_.Encode(values);
  const int64_t encoded = NowNs();
  if (!decoder_.Decode(block, values.size(), decoded, error)) return false;
  const int64_t end = NowNs();
  if (!counting_) return true;

  const auto raw = static_cast<double>(values.size_bytes());
  encode_bytes_per_second_ = std::max(encode_bytes_per_second_, Rate(raw, encoded - begin));
  decode_bytes_per_second_ = std::max(decode_bytes_per_second_, Rate(raw, end - encoded));
  message_bytes_ = values.size_bytes();
  raw_bytes_ += message_bytes_;
  wire_bytes_ += block.bytes.size();
  sum_.resize(values.size());
  error_sum_.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i], missing = static_cast<double>(decoded[i]) - value;
    squares_ += value * value;
    error_squares_ += missing * missing;
    sum_[i] += value;
    error_sum_[i] += missing;
  }
  return true;
}

CodecFigures StreamMeasure::Figures() const {
  CodecFigures figures;
  if (raw_bytes_ > 0) {
    figures.ratio = static_cast<double>(wire_bytes_) / static_cast<double>(raw_bytes_);
  }
  figures.encode_bytes_per_second = encode_bytes_per_second_;
  figures.decode_bytes_per_second = decode_bytes_per_second_;
  return figures;
}

double StreamMeasure::RelativeError() const { return Relative(error_squares_, squares_); }

double StreamMeasure::RelativeErrorOfSum() const {
  return Relative(SquaredNorm(error_sum_), SquaredNorm(sum_));
}

std::map<std::string, CodecFigures> ProbeCodecs(const Job& job) {
  const Options& options = job.options();
  const Codec gradients = options.gradients.codec, weights = options.weights.codec;
  const auto probed = [&](const Codec& codec) {
    return codec == Codec::kNone || codec == Codec::kBf16 || options.mode == Mode::kMonolithic;
  };
  const Payloads payloads = PayloadsOf(job, !probed(gradients) || !probed(weights));
  std::map<std::string, CodecFigures> found;
  const auto probe = [&](const Codec& codec, CodecUse use, const std::vector<float>& first,
                         const std::vector<float>& later) {
    CodecFigures figures = job.StatedCodec(codec, use);
    if (job.computes()) {
      const CodecFigures measured = Measure(codec, first, later);
      figures.ratio = measured.ratio;
      if (!options.devices.emulated()) figures = measured;
    }
    const auto [at, is_new] = found.try_emplace(CodecName(codec), figures);
    if (is_new) return;
    // One codec on both links, whose payloads are as large: the mean.
    CodecFigures& both = at->second;
    const auto harmonic = [](double a, double b) { return 2 / (1 / a + 1 / b); };
    both.ratio = (both.ratio + figures.ratio) / 2;
    both.encode_bytes_per_second =
        harmonic(both.encode_bytes_per_second, figures.encode_bytes_per_second);
    both.decode_bytes_per_second =
        harmonic(both.decode_bytes_per_second, figures.decode_bytes_per_second);
  };
  probe(Codec::kBf16, CodecUse::kGradients, payloads.weights_before, payloads.weights_before);
  if (!probed(gradients))
    probe(gradients, CodecUse::kGradients, payloads.gradients, payloads.gradients);
  if (!probed(weights))
    probe(weights, CodecUse::kWeights, payloads.weights_before, payloads.weights_after);
  return found;
}

}  // namespace poolscope::trainer
