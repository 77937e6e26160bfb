#pragma once

#include <poolscope/annotate.h>

#include "reference-trainer/options.h"

namespace poolscope::trainer {

// Names and counters that the workers annotate with, registered once at the start.
struct Annotations {
  Annotations();

  nvtxStringHandle_t forward, backward, optimizer, step, bf16;
  uint64_t credits, version, loss, gradient_norm, tokens;

  nvtxStringHandle_t CodecNameOf(Codec codec) const {
    return codec == Codec::kBf16 ? bf16 : nullptr;
  }
};

// How fast a codec is and how much it saves, measured on `values` (or as the device emulates it).
struct CodecProbe {
  double ratio = 0;                    // wire ÷ raw bytes
  double encode_bytes_per_second = 0;  // of raw bytes
  double decode_bytes_per_second = 0;
};

// The knobs and facts of the run, for the what-if.
void AnnotateSettings(const Options& options, const CodecProbe& bf16);

// The open wait or blocked range of one worker's thread; at most one at a time.
class OpenWait {
 public:
  ~OpenWait() { End(); }

  // Begins to wait; goes on if already waiting for the same.
  void Begin(poolscope_category category, nvtxStringHandle_t name);
  // Ends the wait, if any: the message (source, sequence) ended it, or none did.
  void End(uint64_t source = POOLSCOPE_NO_VALUE, uint64_t sequence = POOLSCOPE_NO_VALUE);

 private:
  uint32_t category_ = 0;  // 0: not waiting
  nvtxStringHandle_t name_ = nullptr;
};

}  // namespace poolscope::trainer
