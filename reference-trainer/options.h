#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "reference-trainer/admission.h"
#include "reference-trainer/codec.h"
#include "reference-trainer/link.h"
#include "reference-trainer/model/parameters.h"
#include "reference-trainer/options_all_reduce.h"
#include "reference-trainer/options_checkpoint.h"
#include "reference-trainer/options_cuda.h"
#include "reference-trainer/options_device.h"
#include "reference-trainer/options_experts.h"
#include "reference-trainer/options_fetch.h"
#include "reference-trainer/options_host.h"
#include "reference-trainer/options_input.h"
#include "reference-trainer/options_reliability.h"
#include "reference-trainer/options_rollout.h"
#include "reference-trainer/options_schedule.h"
#include "reference-trainer/options_side_work.h"
#include "reference-trainer/options_slowness.h"
#include "reference-trainer/options_state.h"
#include "reference-trainer/options_transport.h"

namespace CLI {
class App;
}

namespace poolscope::trainer {

enum class Mode { kMonolithic, kSync, kAsync };
const char* ModeName(Mode mode);     // "monolithic", "sync", "async"
const char* StaleName(Stale stale);  // "wait", "drop", "recompute", "apply"

struct LinkOptions {
  Link::Shape shape;
  Codec codec;
};

struct ModelOptions {
  uint64_t layers = 2;
  uint64_t width = 64;
  uint64_t heads = 4;
  uint64_t context = 64;
  uint64_t batch = 4;  // sequences of a micro-batch
  bool untied_head = false;
  double learning_rate = 1e-3;
  double weight_decay = 0.01;
  ExpertsOptions experts;
};
GptShape ShapeOf(const ModelOptions& model);

// All that the command line says. Times in seconds, sizes in bytes.
struct Options {
  Mode mode = Mode::kSync;
  DeviceOptions devices;
  CudaOptions cuda;
  bool math = true;  // false: an emulated device that computes nothing
  uint64_t compute_workers = 2;
  uint64_t update_workers = 1;
  uint64_t micro_batches = 4;  // of a step
  uint64_t steps = 200;
  uint64_t seed = 1;
  std::string data;      // "": a text of the system's own
  std::string scenario;  // "": none

  uint64_t lag_bound = 1;
  Stale stale = Stale::kWait;
  LinkOptions gradients;
  LinkOptions weights;
  AllReduceOptions all_reduce;
  uint64_t gradient_buckets = 1;  // that a micro-batch's gradients go out in
  RolloutOptions rollout;
  uint64_t link_probes = 3;  // small messages on each link before step 0
  ReliabilityOptions reliability;

  // Emulated devices: as flags state or the cost model says, times already scaled.
  double forward_seconds = 0.010;       // per micro-batch
  double backward_seconds = 0.020;      // per micro-batch
  double update_seconds = 0.010;        // of the whole pool, by one worker
  double jitter = 0;                    // relative sigma
  uint64_t gradient_bytes = 1'000'000;  // whole model, before encoding
  uint64_t weight_bytes = 1'000'000;

  ModelOptions model;
  StateOptions state;
  InputOptions input;
  CheckpointOptions checkpoint;
  ScheduleOptions schedule;
  FetchOptions fetch;
  // Of parameter fetch; requests are many and small.
  LinkOptions requests{{0, 0, 1, 16}, {}}, replicas;
  SlownessOptions slowness;
  HostOptions host;
  SideWorkOptions side_work;
  TransportKind transport = TransportKind::kInProcess;

  uint64_t log_every = 10;
  std::string json_log;  // "": none

  // Those that join later included.
  uint64_t AllComputeWorkers() const {
    uint64_t workers = compute_workers;
    for (const Arrival& join : schedule.joins) workers += join.workers;
    return workers;
  }

  // What the pools and the link from one to the other are called.
  const char* compute_pool() const { return rollout.on ? "rollout" : "compute"; }
  const char* update_pool() const { return rollout.on ? "trainer" : "update"; }
  const char* gradients_link() const { return rollout.on ? "samples" : "gradients"; }
};

// What main should do instead of training: print `text` and exit with `code`.
struct Exit {
  int code = 0;
  std::string text;
};

// `--help` exits with 0, wrong usage with 2 and one line.
std::variant<Options, Exit> ParseOptions(int argc, const char* const* argv);

// The flags of the model, and what they need of each other: one line of error, or "".
void AddModelOptions(CLI::App& app, ModelOptions& model);
std::string CheckModel(const CLI::App& app, const ModelOptions& model);

// Wrong usage of `poolscope-trainer` or, where it is not "", of its subcommand.
Exit WrongUsage(const std::string& what, const std::string& subcommand = "");

// "64M" → 64,000,000: a number with an optional k, M or G (powers of 1000). None where it is not a
// number or negative.
std::optional<double> ParseSuffixed(const std::string& text);

}  // namespace poolscope::trainer
