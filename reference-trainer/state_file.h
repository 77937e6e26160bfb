#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "reference-trainer/training_state.h"

namespace poolscope::trainer {

// The files of a folder of checkpoints. That of step S (twelve digits, zeros in front) is
//
//   step-S.state  all arrays, one after another, little-endian f32
//   step-S.json   the manifest, written last; with it the checkpoint exists. Two lines:
//     {"format":1,"step":40,"data":{"next":160,"open":[]},"facts":[["--width","64"], ...],
//      "arrays":[{"name":"master_weights","count":112,"crc32c":3735928559}, ...]}
//     crc32c 1A2B3C4D                (of the first line without its end)
//
// Each is written as *.tmp, synchronised, and renamed, and the folder synchronised, before the next
// step; what a crash leaves behind is at worst a *.tmp or a .state without manifest, which
// Prepare() removes.
class StateFolder {
 public:
  // What must be the same for a run to go on from a checkpoint: flags and their values.
  using Facts = std::vector<std::pair<std::string, std::string>>;

  StateFolder(std::string path, Facts facts) : path_(std::move(path)), facts_(std::move(facts)) {}

  const std::string& path() const { return path_; }

  // Makes the folder where there is none and clears what crashes left. The error, or "".
  std::string Prepare() const;
  bool HoldsCheckpoints() const { return !Steps().empty(); }

  // Writes a checkpoint, then removes all but the `keep` newest. Between its files and its manifest
  // it calls `before_manifest` (may be empty), which returns false to give up. The error, or ""; a
  // failed one leaves nothing behind.
  std::string Write(const TrainingState& state, size_t keep,
                    const std::function<bool()>& before_manifest) const;

  struct Loaded {
    TrainingState state;
    std::vector<std::string> notes;  // newer ones that are damaged: one line each
  };
  // The newest checkpoint that is whole. The string is an error: none, or one of other facts.
  std::variant<Loaded, std::string> LoadNewest() const;

 private:
  struct Failure {
    std::string what;
    bool damaged = true;  // an older one may do
  };
  std::vector<uint64_t> Steps() const;  // with a manifest, ascending
  std::string FileOf(uint64_t step, const char* suffix) const;
  std::variant<TrainingState, Failure> Load(uint64_t step) const;

  const std::string path_;
  const Facts facts_;
};

}  // namespace poolscope::trainer
