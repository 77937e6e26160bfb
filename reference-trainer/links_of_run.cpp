#include "reference-trainer/links_of_run.h"

#include "reference-trainer/cuda/nccl_wire.h"
#include "reference-trainer/lossy_link.h"
#include "reference-trainer/shaped_link.h"
#include "reference-trainer/transport_link.h"
#include "reference-trainer/wire_link.h"

namespace poolscope::trainer {
namespace {

using Signals = std::vector<Signal*>;
using Fail = std::function<void(const std::string&)>;

// Each hop is a wire of its own.
Link::Shape RingOf(const Options& options, const Placement& placement) {
  Link::Shape ring = options.all_reduce.hop;
  ring.lanes = placement.compute_workers;
  return ring;
}

LinksOfRun OverNccl(const Options& options, const Placement& placement, const Signals& compute,
                    const Signals& update, const Fail& fail) {
  const auto join = [&](const char* name, const Link::Shape& shape, PoolRole from, PoolRole to) {
    const auto senders = CudaDevicesOf(options, from), receivers = CudaDevicesOf(options, to);
    return std::make_unique<WireLink>(
        name, shape, senders.size(), to == PoolRole::kCompute ? compute : update,
        [senders, receivers] { return MakeNcclWire(senders, receivers); }, fail);
  };
  LinksOfRun links;
  links.gradients =
      join("gradients", options.gradients.shape, PoolRole::kCompute, PoolRole::kUpdate);
  links.weights = join("weights", options.weights.shape, PoolRole::kUpdate, PoolRole::kCompute);
  if (options.all_reduce.on) {
    links.all_reduce =
        join("allreduce", RingOf(options, placement), PoolRole::kCompute, PoolRole::kCompute);
  }
  return links;
}

LinksOfRun InProcess(const Options& options, const Placement& placement, const Signals& compute,
                     const Signals& update, const Fail& fail) {
  const ReliabilityOptions& reliability = options.reliability;
  LinksOfRun links;
  links.gradients =
      MakeLink(options.gradients_link(), options.gradients.shape, reliability,
               reliability.gradients, options.seed, placement.compute_workers, update, fail);
  links.weights = MakeLink("weights", options.weights.shape, reliability, reliability.weights,
                           options.seed, options.update_workers, compute, fail);
  if (options.all_reduce.on) {
    links.all_reduce = std::make_unique<ShapedLink>("allreduce", RingOf(options, placement),
                                                    placement.compute_workers, compute);
  }
  return links;
}

// Workers of a pool among the ranks: where each is, and its signal where that is here.
struct End {
  std::vector<int> ranks;
  std::vector<TransportLink::Receiver> receivers;

  void Add(int rank, int here, Signal* signal) {
    ranks.push_back(rank);
    receivers.push_back({rank, rank == here ? signal : nullptr});
  }
};

LinksOfRun OverTransport(const Options& options, const Annotations& annotations,
                         const Placement& placement, const Signals& compute_signals,
                         const Signals& update_signals, Transport& transport) {
  constexpr int kGradientsTag = 16, kWeightsTag = kGradientsTag + TransportLink::kTags,
                kAllReduceTag = kWeightsTag + TransportLink::kTags;
  End compute, update;
  for (uint64_t i = 0; i < placement.compute_workers; ++i) {
    compute.Add(placement.OfCompute(i), placement.rank, compute_signals[i]);
  }
  for (uint64_t i = 0; i < options.update_workers; ++i) {
    update.Add(placement.OfUpdate(i), placement.rank, update_signals[i]);
  }
  const auto join = [&](const char* name, const Link::Shape& shape, const End& from, const End& to,
                        int tag, auto codec) {
    return std::make_unique<TransportLink>(name, shape, from.ranks, to.receivers, transport, tag,
                                           codec);
  };
  LinksOfRun links;
  links.gradients = join("gradients", options.gradients.shape, compute, update, kGradientsTag,
                         annotations.gradients_codec);
  links.weights = join("weights", options.weights.shape, update, compute, kWeightsTag,
                       annotations.weights_codec);
  if (options.all_reduce.on) {
    links.all_reduce =
        join("allreduce", RingOf(options, placement), compute, compute, kAllReduceTag, nullptr);
  }
  return links;
}

}  // namespace

LinksOfRun MakeLinks(const Options& options, const Annotations& annotations,
                     const Placement& placement, const Signals& compute_signals,
                     const Signals& update_signals, Transport* transport, const Fail& fail) {
  if (options.transport == TransportKind::kNccl) {
    return OverNccl(options, placement, compute_signals, update_signals, fail);
  }
  if (!transport) return InProcess(options, placement, compute_signals, update_signals, fail);
  return OverTransport(options, annotations, placement, compute_signals, update_signals,
                       *transport);
}

}  // namespace poolscope::trainer
