#include "advisor/knobs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

namespace poolscope {
namespace {

constexpr int kMostWorkers = 4096;
constexpr int kMostDepth = 65536;

Error BadValue(const std::string& knob, const std::string& value, const std::string& allowed) {
  return Error{fmt::format("bad value '{}' for {}: {}", value, knob, allowed)};
}

Status SetNumber(const std::string& knob, const std::string& value, int least, int most, int& to) {
  int number = 0;
  const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (failed != std::errc{} || end != value.data() + value.size() || number < least ||
      number > most) {
    return BadValue(knob, value, fmt::format("a whole number from {} to {}", least, most));
  }
  to = number;
  return {};
}

Status SetCodec(const std::string& knob, const std::string& value, LinkModel& link) {
  if (value == link.codec.name) return {};
  if (value == "bf16") {
    link.codec = link.bf16;
  } else if (value == "none") {
    link.codec = Codec{};
  } else {
    return BadValue(knob, value, "none or bf16");
  }
  return {};
}

Status SetKnob(Model& model, const std::string& knob, const std::string& value) {
  for (PoolModel* pool : {&model.compute, &model.update}) {
    if (knob == pool->name + ".workers") {
      return SetNumber(knob, value, 1, kMostWorkers, pool->workers);
    }
  }
  for (LinkModel* link : {&model.gradients, &model.weights}) {
    if (knob == link->name + ".depth") return SetNumber(knob, value, 1, kMostDepth, link->depth);
    if (knob == link->name + ".codec") return SetCodec(knob, value, *link);
  }
  if (knob == "lag_bound") return SetNumber(knob, value, 0, 1024, model.lag_bound);
  if (knob == "mode") {
    if (value != "sync" && value != "async") return BadValue(knob, value, "sync or async");
    model.async = value == "async";
    return {};
  }
  if (knob == "micro_batches") return SetNumber(knob, value, 1, 65536, model.micro_batches);
  return Error{
      fmt::format("unknown knob '{}': known are {}", knob, fmt::join(KnobNames(model), ", "))};
}

}  // namespace

std::vector<std::string> KnobNames(const Model& model) {
  return {model.compute.name + ".workers",
          model.update.name + ".workers",
          model.gradients.name + ".depth",
          model.weights.name + ".depth",
          model.gradients.name + ".codec",
          model.weights.name + ".codec",
          "lag_bound",
          "micro_batches",
          "mode"};
}

Result<Model> WithChanges(const Model& model, const Changes& changes) {
  Model changed = model;
  for (const auto& [knob, value] : changes) {
    if (Status status = SetKnob(changed, knob, value); !status) return status.error();
  }
  return changed;
}

std::string KnobValue(const Model& model, const std::string& knob) {
  for (const PoolModel* pool : {&model.compute, &model.update}) {
    if (knob == pool->name + ".workers") return std::to_string(pool->workers);
  }
  for (const LinkModel* link : {&model.gradients, &model.weights}) {
    if (knob == link->name + ".depth") return std::to_string(link->depth);
    if (knob == link->name + ".codec") return link->codec.name;
  }
  if (knob == "lag_bound") return std::to_string(model.lag_bound);
  if (knob == "micro_batches") return std::to_string(model.micro_batches);
  if (knob == "mode") return model.async ? "async" : "sync";
  return "";
}

std::string DescribeChanges(const Model& model, const Changes& changes) {
  std::vector<std::string> parts;
  for (const auto& [knob, value] : changes) {
    const std::string now = KnobValue(model, knob);
    if (now == value) continue;
    const size_t dot = knob.rfind('.');
    const bool workers = dot != std::string::npos && knob.substr(dot) == ".workers";
    parts.push_back(fmt::format("{} {} -> {}", workers ? knob.substr(0, dot) : knob, now, value));
  }
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string ApplyFlags(const Model& model, const Changes& changes) {
  std::vector<std::string> flags;
  for (const auto& [knob, value] : changes) {
    if (KnobValue(model, knob) == value) continue;
    if (knob == "mode") {
      flags.push_back("--" + value);
      continue;
    }
    std::string flag = knob;
    for (char& c : flag) {
      if (c == '.' || c == '_') c = '-';
    }
    flags.push_back(fmt::format("--{} {}", flag, value));
  }
  return fmt::format("{}", fmt::join(flags, " "));
}

std::string ClassOf(const Changes& changes) {
  std::string klass = "lossless";
  for (const auto& [knob, value] : changes) {
    if (knob == "lag_bound" || knob == "micro_batches" || knob == "mode") {
      return "changes training";
    }
    if (knob.ends_with(".codec") && value != "none") klass = "reduced precision";
  }
  return klass;
}

}  // namespace poolscope
