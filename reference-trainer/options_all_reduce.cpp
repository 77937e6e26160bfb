#include "reference-trainer/options_all_reduce.h"

#include <fmt/format.h>
#include <poolscope/annotate.h>

#include <CLI/CLI.hpp>

#include "reference-trainer/options.h"

namespace poolscope::trainer {

void AddAllReduceOptions(CLI::App& app, AllReduceOptions& all_reduce) {
  app.add_flag("--compute-allreduce", all_reduce.on,
               "compute workers add their gradients up in a ring, and one sum goes out (--sync)")
      ->group("Links");
}

std::string CheckAllReduce(const CLI::App& app, const Options& options) {
  if (!options.all_reduce.on) {
    for (const char* flag : {"--allreduce-bandwidth", "--allreduce-latency-ms"}) {
      if (app.count(flag) > 0) return fmt::format("{} needs --compute-allreduce", flag);
    }
    return "";
  }
  if (options.mode != Mode::kSync) {
    return "--compute-allreduce needs --sync: other modes have no sum over the workers of a step";
  }
  if (options.compute_workers < 2) return "--compute-allreduce needs --compute-workers 2 or more";
  if (const ScheduleOptions& schedule = options.schedule;
      !schedule.joins.empty() || !schedule.leaves.empty() || !schedule.kills.empty()) {
    return "--compute-allreduce does not go with --join, --leave and --kill: the ring is fixed";
  }
  return "";
}

void AnnotateAllReduce(const AllReduceOptions& all_reduce) {
  if (!all_reduce.on) return;
  poolscope_setting("compute.allreduce", "ring");
}

}  // namespace poolscope::trainer
