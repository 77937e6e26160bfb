#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "reference-trainer/codec_stream.h"
#include "reference-trainer/job.h"

namespace poolscope::trainer {

// Sends messages over a stream of its own that leads nowhere, and measures what its codec does.
class StreamMeasure {
 public:
  explicit StreamMeasure(const Codec& codec) : encoder_(codec) {}

  // Encodes and decodes; the figures only count what comes after StartCounting. False, and `error`
  // says why, where the codec fails.
  bool Add(std::span<const float> values, std::string& error);
  void StartCounting() { counting_ = true; }

  // Ratio over all messages, speeds of the fastest one: the others met interruptions.
  CodecFigures Figures() const;
  uint64_t message_bytes() const { return message_bytes_; }  // before encoding

  // |decoded − values| ÷ |values| over all messages, in the Euclidean norm.
  double RelativeError() const;
  // The same of the sum of the messages: small where what one leaves out a later one brings.
  double RelativeErrorOfSum() const;

 private:
  Encoder encoder_;
  Decoder decoder_;
  bool counting_ = false;
  uint64_t message_bytes_ = 0, raw_bytes_ = 0, wire_bytes_ = 0;
  double encode_bytes_per_second_ = 0, decode_bytes_per_second_ = 0;
  double squares_ = 0, error_squares_ = 0;
  std::vector<double> sum_, error_sum_;
};

// The codecs in use and bf16, by name, on real payloads of the job: initial weights, and gradients
// and weights of one update. On emulated devices the stated speeds, and where nothing is computed
// the stated ratios.
std::map<std::string, CodecFigures> ProbeCodecs(const Job& job);

}  // namespace poolscope::trainer
