#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference-trainer/block.h"
#include "reference-trainer/codec.h"

namespace poolscope::trainer {

// A stream is all messages from one worker to another, in order. Its two ends live with the two
// workers, each used by its worker's thread alone, for as long as the run.

// The sender's end. What top-k and 1bit have not sent stays here and is added to the next message
// (error feedback: Seide et al. 2014; Stich, Cordonnier, Jaggi 2018), so that the sum of what was
// decoded stays within one residual of the sum of what was encoded. 1bit-delta keeps what the
// receiver has.
class Encoder {
 public:
  explicit Encoder(const Codec& codec) : codec_(codec) {}

  Block Encode(std::span<const float> values);

  // What it keeps from message to message: the error feedback of top-k and 1bit, or what the
  // receiver of 1bit-delta holds; empty at first, and always with other codecs.
  std::span<const float> memory() const { return codec_.needs_every_message() ? copy_ : residual_; }
  // Goes on with that error feedback.
  void Remember(std::span<const float> residual) {
    residual_.assign(residual.begin(), residual.end());
  }

 private:
  void EncodeValues(std::span<const float> values, std::vector<uint8_t>& wire);
  void EncodeDelta(std::span<const float> values, std::vector<uint8_t>& wire);

  const Codec codec_;
  std::vector<float> residual_;  // top-k, 1bit
  std::vector<float> copy_;      // 1bit-delta: what the receiver holds, bit by bit
  std::vector<float> scratch_;
  uint32_t frame_ = 0;  // 1bit-delta: of the next message
};

// The receiver's end.
class Decoder {
 public:
  // Fills values[expected]. False, and `error` says why, where the block is damaged, malformed, of
  // another size, or, with 1bit-delta, not the one after the last.
  bool Decode(const Block& block, uint64_t expected, std::vector<float>& values,
              std::string& error);

 private:
  bool DecodeValues(const Codec& codec, std::span<const uint8_t> wire, std::span<float> values,
                    std::string& error);
  bool DecodeDelta(std::span<const uint8_t> wire, std::span<float> values, std::string& error);

  std::vector<float> copy_;  // 1bit-delta: the values of the last message
  uint32_t frame_ = 0;       // 1bit-delta: of the last message
  std::vector<uint8_t> scratch_;
};

}  // namespace poolscope::trainer
