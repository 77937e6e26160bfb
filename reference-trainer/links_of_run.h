#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reference-trainer/annotations.h"
#include "reference-trainer/link.h"
#include "reference-trainer/options.h"
#include "reference-trainer/placement.h"
#include "reference-trainer/transport.h"

namespace poolscope::trainer {

struct LinksOfRun {
  std::unique_ptr<Link> gradients, weights;
  std::unique_ptr<Link> all_reduce;  // compute to compute; null without
};

// The links of a disaggregated run: in this process, between devices by NCCL, or over the transport
// (null: none). Signals are those of the pools' workers; a link that cannot go on calls `fail`, on
// any thread.
LinksOfRun MakeLinks(const Options& options, const Annotations& annotations,
                     const Placement& placement, const std::vector<Signal*>& compute_signals,
                     const std::vector<Signal*>& update_signals, Transport* transport,
                     const std::function<void(const std::string&)>& fail);

}  // namespace poolscope::trainer
