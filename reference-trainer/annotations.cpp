#include "reference-trainer/annotations.h"

#include <fmt/format.h>
#include <sched.h>

namespace poolscope::trainer {

namespace {

nvtxStringHandle_t NameOf(const Codec& codec) {
  return codec == Codec::kNone ? nullptr : poolscope_name(CodecName(codec).c_str());
}

std::string Name(const char* owner, const char* what) { return std::string(owner) + what; }

// CPUs that this process may run on; 0: not known.
int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

}  // namespace

Annotations::Annotations(const Options& options)
    : forward(poolscope_name("forward")),
      backward(poolscope_name("backward")),
      optimizer(poolscope_name("optimizer")),
      step(poolscope_name("step")),
      offload_fetch(poolscope_name("offload_fetch")),
      offload_write_back(poolscope_name("offload_write_back")),
      all_reduce(poolscope_name("allreduce")),
      reduce(poolscope_name("reduce")),
      generate(poolscope_name("generate")),
      warm_up(poolscope_name("warm-up")),
      gradients(poolscope_name(options.gradients_link())),
      gradients_codec(NameOf(options.gradients.codec)),
      weights_codec(NameOf(options.weights.codec)),
      credits(poolscope_counter(Name(options.gradients_link(), ".credits").c_str())),
      version(poolscope_counter(Name(options.update_pool(), ".version").c_str())),
      loss(poolscope_counter("loss")),
      gradient_norm(poolscope_counter("gradient_norm")),
      tokens(poolscope_counter("tokens")),
      compute_workers(poolscope_counter(Name(options.compute_pool(), ".workers").c_str())),
      micro_batches(poolscope_counter("micro_batches")),
      sequences(poolscope_counter("sequences")),
      active(poolscope_counter("rollout.active")),
      occupancy(poolscope_counter("rollout.occupancy")),
      versions_held(poolscope_counter("gradients.versions_held")) {}

void AnnotateSettings(const Options& options, const std::map<std::string, CodecFigures>& codecs) {
  const auto text = [](const char* key, const char* value) { poolscope_setting(key, value); };
  const auto count = [](const char* key, uint64_t value) {
    poolscope_setting(key, fmt::format("{}", value).c_str());
  };
  const auto number = [](const char* key, double value) {
    poolscope_setting(key, fmt::format("{:.6g}", value).c_str());
  };
  const bool monolithic = options.mode == Mode::kMonolithic;
  text("trainer", "poolscope-trainer");
  if (!options.scenario.empty()) text("scenario", options.scenario.c_str());
  text("mode", ModeName(options.mode));
  text("transport", TransportName(options.transport));
  if (const int cores = UsableCores(); cores > 0) count("cores", static_cast<uint64_t>(cores));
  text("device", DeviceKindName(options.devices.compute.kind));
  text(Name(options.compute_pool(), ".device").c_str(),
       DeviceName(options.devices.compute).c_str());
  text(Name(options.update_pool(), ".device").c_str(), DeviceName(options.devices.update).c_str());
  number("time_scale", options.devices.time_scale);
  count(Name(options.compute_pool(), ".workers").c_str(), monolithic ? 1 : options.compute_workers);
  count(Name(options.update_pool(), ".workers").c_str(), monolithic ? 0 : options.update_workers);
  count("micro_batches", options.micro_batches);
  count("lag_bound", options.lag_bound);
  count("warm_up_steps", options.schedule.warm_up_steps);
  text("stale", StaleName(options.stale));
  const ReliabilityOptions& reliability = options.reliability;
  for (const auto& [link, wire] :
       {std::pair<std::string, WireOptions>{"gradients", reliability.gradients},
        {"weights", reliability.weights},
        {"requests", reliability.requests}}) {
    if (!wire.in_blocks()) continue;
    text((link + ".reliability").c_str(), wire.reliable ? "reliable" : "best-effort");
    number((link + ".loss").c_str(), wire.faults.loss);
    number((link + ".corruption").c_str(), wire.faults.corruption);
    number((link + ".reorder").c_str(), wire.faults.reorder);
    number((link + ".duplicate").c_str(), wire.faults.duplicate);
    number((link + ".delay_ms").c_str(), static_cast<double>(wire.faults.delay_ns) / 1e6);
  }
  text("optimizer.offload", OffloadName(options.state.offload.to));
  number("optimizer.resident_fraction",
         options.state.offload.to == Offload::kNone ? 1 : options.state.offload.resident_fraction);
  if (options.model.experts.count > 0) {
    count("experts", options.model.experts.count);
    count("experts.per_token", options.model.experts.per_token);
    number("experts.skew", options.model.experts.skew);
  }
  if (!options.checkpoint.folder.empty()) {
    text("checkpoint.kind", options.checkpoint.full ? "full" : "update");
    count("checkpoint.every", options.checkpoint.every);
  }
  if (!monolithic) {
    text("optimizer.layout", ShardLayoutName(options.state.layout));
    count(Name(options.gradients_link(), ".depth").c_str(), options.gradients.shape.depth);
    count("weights.depth", options.weights.shape.depth);
    text("weights.mode", options.fetch.on ? "fetch" : "push");
    if (options.fetch.on) {
      count("fetch.prefetch_depth", options.fetch.prefetch_depth);
      count("fetch.cache_blocks", options.fetch.cache_blocks);
      count("fetch.replication", options.fetch.replication);
      count("requests.depth", options.requests.shape.depth);
    }
    text(Name(options.gradients_link(), ".codec").c_str(),
         CodecName(options.gradients.codec).c_str());
    text("weights.codec", CodecName(options.weights.codec).c_str());
  }
  if (options.gradient_buckets > 1) count("gradients.buckets", options.gradient_buckets);
  AnnotateAllReduce(options.all_reduce);
  AnnotateRollout(options.rollout);
  AnnotateInput(options.input);
  AnnotateSlowness(options.slowness);
  AnnotateHost(options.host);
  AnnotateSideWork(options.side_work);
  for (const auto& [name, figures] : codecs) {
    const std::string codec = "codec." + name;
    number((codec + ".ratio").c_str(), figures.ratio);
    number((codec + ".encode_bytes_per_second").c_str(), figures.encode_bytes_per_second);
    number((codec + ".decode_bytes_per_second").c_str(), figures.decode_bytes_per_second);
  }
}

void OpenWait::Begin(poolscope_category category, nvtxStringHandle_t name) {
  if (category_ == static_cast<uint32_t>(category) && name_ == name) return;
  End();
  category_ = category;
  name_ = name;
  poolscope_begin(category_, name_);
}

void OpenWait::End(uint64_t source, uint64_t sequence) {
  if (category_ == 0) return;
  if (category_ == POOLSCOPE_WAIT_LINK) {
    poolscope_end_wait(source, sequence);
  } else {
    poolscope_end();
  }
  category_ = 0;
}

}  // namespace poolscope::trainer
