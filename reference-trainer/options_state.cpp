#include "reference-trainer/options_state.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>

#include "reference-trainer/options.h"

namespace poolscope::trainer {
namespace {

const std::map<std::string, ShardLayout> kLayouts = {
    {"flat", ShardLayout::kFlat}, {"layer", ShardLayout::kLayer}, {"head", ShardLayout::kHead}};
const std::map<std::string, Offload> kOffloads = {
    {"none", Offload::kNone}, {"host", Offload::kHost}, {"file", Offload::kFile}};

template <typename T>
void AddChoice(CLI::App& app, const char* flag, const std::map<std::string, T>& names, T& value,
               const char* help, const char* type) {
  std::vector<std::string> keys;
  for (const auto& [name, each] : names) keys.push_back(name);
  app.add_option_function<std::string>(
         flag, [&names, &value](const std::string& text) { value = names.at(text); }, help)
      ->check(CLI::IsMember(keys))
      ->type_name(type)
      ->group("Optimizer state");
}

void AddRate(CLI::App& app, const char* flag, double& value, const char* help) {
  app.add_option_function<std::string>(
         flag, [&value](const std::string& text) { value = *ParseSuffixed(text); }, help)
      ->check([](const std::string& text) {
        return ParseSuffixed(text) ? "" : "'" + text + "' is no rate such as 500M or 2G";
      })
      ->type_name("RATE")
      ->group("Optimizer state");
}

}  // namespace

void AddStateOptions(CLI::App& app, StateOptions& state) {
  const std::string group = "Optimizer state";
  AddChoice(app, "--shard-layout", kLayouts, state.layout,
            "which parameters each update worker owns: flat (equal parts), layer (whole layers) or "
            "head (attention by heads, the rest dealt out) (default flat)",
            "LAYOUT");
  AddChoice(app, "--optimizer-offload", kOffloads, state.offload.to,
            "where master weights and moments lie: none (with the worker), host or file (default "
            "none)",
            "PLACE");
  app.add_option("--offload-dir", state.offload.folder,
                 "folder of the offloaded state (default: that for temporary files)")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--resident-fraction", state.offload.resident_fraction,
                 "share of the parameters whose state is not offloaded")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("F")
      ->capture_default_str()
      ->group(group);
  AddRate(app, "--offload-bandwidth", state.offload.bytes_per_second,
          "of an emulated device's link to its host, each way; 0 is unlimited (default 25G: PCIe "
          "4.0 x16, or the profile's)");
}

std::string CheckState(const CLI::App& app, const Options& options) {
  const auto given = [&](const char* flag) { return app.count(flag) > 0; };
  const StateOptions& state = options.state;
  if (given("--shard-layout") && options.mode == Mode::kMonolithic) {
    return "--shard-layout needs --mode disaggregated";
  }
  const size_t most = MostShards(state.layout, ShapeOf(options.model));
  if (options.mode != Mode::kMonolithic && options.update_workers > most) {
    return fmt::format(
        "--shard-layout {} makes at most {} shards of this model, fewer than "
        "--update-workers {}",
        ShardLayoutName(state.layout), most, options.update_workers);
  }
  if (given("--resident-fraction") && state.offload.to == Offload::kNone) {
    return "--resident-fraction needs --optimizer-offload";
  }
  const bool copies = state.offload.to != Offload::kNone || !options.checkpoint.folder.empty();
  if (given("--offload-bandwidth") && !copies) {
    return "--offload-bandwidth needs --optimizer-offload or --checkpoint-dir";
  }
  if (given("--offload-bandwidth") && !options.devices.emulated()) {
    return "--offload-bandwidth needs --device emulated";
  }
  if (given("--offload-dir") && (state.offload.to != Offload::kFile || !options.math)) {
    return options.math ? "--offload-dir needs --optimizer-offload file"
                        : "--offload-dir has no effect with --math none";
  }
  return "";
}

std::vector<double> SharesOfWorkers(const Options& options) {
  const size_t count = options.mode == Mode::kMonolithic ? 1 : options.update_workers;
  const GptShape shape = ShapeOf(options.model);
  const auto total = static_cast<double>(Parameters(shape).size());
  std::vector<double> shares;
  if (options.state.layout != ShardLayout::kLayer) return std::vector(count, 1.0 / double(count));
  for (const Ranges& ranges : LayOut(options.state.layout, shape, count)) {
    shares.push_back(static_cast<double>(SizeOf(ranges)) / total);
  }
  return shares;
}

std::vector<StateSizes> StateOfWorkers(const Options& options) {
  const size_t count = options.mode == Mode::kMonolithic ? 1 : options.update_workers;
  std::vector<StateSizes> sizes;
  if (options.devices.emulated()) {
    const double parameters = static_cast<double>(options.weight_bytes) / sizeof(float);
    for (const double share : SharesOfWorkers(options)) {
      sizes.push_back(
          SizesOfState(static_cast<uint64_t>(parameters * share), options.state.offload));
    }
    return sizes;
  }
  for (const Ranges& ranges : LayOut(options.state.layout, ShapeOf(options.model), count)) {
    sizes.push_back(SizesOfState(SizeOf(ranges), options.state.offload));
  }
  return sizes;
}

}  // namespace poolscope::trainer
