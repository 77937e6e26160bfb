#pragma once

#include <poolscope/annotate.h>

#include <map>
#include <string>

#include "reference-trainer/options.h"

namespace poolscope::trainer {

// Names and counters that the workers annotate with, registered once at the start.
struct Annotations {
  explicit Annotations(const Options& options);

  nvtxStringHandle_t forward, backward, optimizer, step;
  nvtxStringHandle_t offload_fetch, offload_write_back;
  nvtxStringHandle_t all_reduce, reduce;              // collective, its adding
  nvtxStringHandle_t generate;                        // of rollouts
  nvtxStringHandle_t warm_up;                         // phase
  nvtxStringHandle_t gradients;                       // link
  nvtxStringHandle_t gradients_codec, weights_codec;  // null: none
  uint64_t credits, version, loss, gradient_norm, tokens;
  uint64_t compute_workers, micro_batches, sequences;  // present; of a step; of a micro-batch
  uint64_t active, occupancy;  // of a rollout worker: sequences, and their share of its slots
  uint64_t versions_held;      // most of gradients that waited at update worker 0 in a step
};

// The knobs and facts of the run, for the what-if; figures by the codec's name.
void AnnotateSettings(const Options& options, const std::map<std::string, CodecFigures>& codecs);

// A phase of the run that advice leaves out, for as long as this lives; null: none.
class Phase {
 public:
  explicit Phase(nvtxStringHandle_t name) : open_(name != nullptr) {
    if (open_) poolscope_begin(POOLSCOPE_PHASE, name);
  }
  ~Phase() {
    if (open_) poolscope_end();
  }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  const bool open_;
};

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
