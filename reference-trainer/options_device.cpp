#include "reference-trainer/options_device.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "reference-trainer/memory.h"
#include "reference-trainer/options.h"

namespace poolscope::trainer {
namespace {

constexpr double kMaxMs = 1e6;

// A number with a suffix, as `type`, at most `max`.
CLI::Option* AddSuffixed(CLI::App& app, const std::string& flag,
                         const std::function<void(double)>& set, double max, const char* type,
                         const std::string& help) {
  return app
      .add_option_function<std::string>(
          flag, [set](const std::string& text) { set(*ParseSuffixed(text)); }, help)
      ->check([max](const std::string& text) {
        const auto value = ParseSuffixed(text);
        return value && *value <= max ? "" : "'" + text + "' is no size such as 512k or 64M";
      })
      ->type_name(type);
}

void AddSpec(CLI::App& app, const std::string& flag, const std::function<void(DeviceSpec)>& set,
             const std::string& help) {
  app.add_option_function<std::string>(
         flag, [set](const std::string& text) { set(std::get<DeviceSpec>(ParseDeviceSpec(text))); },
         help)
      ->check([](const std::string& text) {
        const auto spec = ParseDeviceSpec(text);
        const auto* error = std::get_if<std::string>(&spec);
        return error ? *error : std::string();
      })
      ->type_name("DEVICE");
}

void AddStated(CLI::App& app, Options& options) {
  const std::string group = "Emulated device";
  app.add_option_function<std::string>(
         "--math", [&options](const std::string& text) { options.math = text == "tiny"; },
         "tiny: a tiny real model learns inside the stated times; none: nothing is computed "
         "(default tiny)")
      ->check(CLI::IsMember({"none", "tiny"}))
      ->group(group);
  const auto ms = [&](const char* flag, double& seconds, const std::string& help) {
    app.add_option_function<double>(
           flag, [&seconds](double value) { seconds = value / 1e3; },
           fmt::format("{} (default {:g}, or what the profile takes)", help, seconds * 1e3))
        ->check(CLI::Range(0.0, kMaxMs))
        ->type_name("MS")
        ->group(group);
  };
  ms("--forward-ms", options.forward_seconds, "forward pass of a micro-batch");
  ms("--backward-ms", options.backward_seconds, "backward pass of a micro-batch");
  ms("--update-ms", options.update_seconds,
     "optimizer, whole pool: each of U workers takes 1/U of it");
  app.add_option("--jitter", options.jitter, "relative standard deviation of these times")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("SIGMA")
      ->capture_default_str()
      ->group(group);
  const auto bytes = [&](const char* flag, uint64_t& value, const char* help) {
    AddSuffixed(
        app, flag, [&value](double size) { value = static_cast<uint64_t>(size); }, 1e15, "SIZE",
        help)
        ->group(group);
  };
  bytes("--gradient-bytes", options.gradient_bytes,
        "gradients of the whole model, suffix k, M or G (default 1M, or 4 a parameter)");
  bytes("--weight-bytes", options.weight_bytes,
        "weights of the whole model (default 1M, or 4 a parameter)");
  app.add_option("--time-scale", options.devices.time_scale,
                 "multiplies all these times, and those of the links: 0.1 is ten times faster")
      ->check(CLI::Range(1e-6, 1e3))
      ->type_name("S")
      ->capture_default_str()
      ->group(group);
}

void AddMemory(CLI::App& app, DeviceOptions& devices) {
  const std::string group = "Emulated device";
  app.add_flag("--shared-device", devices.shared,
               "update worker j is on the device of compute worker j")
      ->group(group);
  AddSuffixed(
      app, "--device-memory", [&devices](double bytes) { devices.memory_bytes = bytes; }, 1e15,
      "SIZE", "of each device; what does not fit is refused (default: the profile's, or unbounded)")
      ->group(group);
  AddSuffixed(
      app, "--memory-leak", [&devices](double bytes) { devices.memory_leak_bytes = bytes; }, 1e15,
      "SIZE", "by which the memory of a compute worker grows each step")
      ->group(group);
}

void AddModel(CLI::App& app, DeviceOptions& devices) {
  EmulatedModel& model = devices.model;
  const std::string group = "Emulated model (of --device emulated:PROFILE)";
  app.add_option("--devices-per-worker", devices.per_worker,
                 "devices over which a compute worker's model and passes are spread")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1024}))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  AddSuffixed(
      app, "--model-parameters", [&model](double value) { model.parameters = value; }, 1e14, "N",
      "its size; no memory is taken (default 1.3G)")
      ->group(group);
  const auto count = [&](const char* flag, uint64_t& value, uint64_t max, const char* help) {
    app.add_option(flag, value, help)
        ->check(CLI::Range(uint64_t{1}, max))
        ->type_name("N")
        ->group(group);
  };
  count("--model-layers", model.layers, 10'000, "default: as the published GPT nearest in size");
  count("--model-width", model.width, 1'000'000, "likewise");
  count("--model-context", model.context, 10'000'000, "tokens of a sequence (default 2048)");
  count("--model-batch", model.batch, 1'000'000, "sequences of a micro-batch (default 1)");
}

void Use(const LinkProfile& profile, const CLI::App& app, const std::string& name,
         Link::Shape& to) {
  if (app.count("--" + name + "-bandwidth") == 0) {
    to.bytes_per_second = profile.achieved_bytes_per_second();
  }
  if (app.count("--" + name + "-latency-ms") == 0) {
    to.latency_ns = std::llround(profile.latency_seconds * 1e9);
  }
}

void UseProfiles(const CLI::App& app, Options& options) {
  DeviceOptions& devices = options.devices;
  EmulatedModel& model = devices.model;
  if (model.parameters == 0) model.parameters = 1.3e9;
  const Shape shape = ShapeOfParameters(model.parameters);
  if (model.layers == 0) model.layers = shape.layers;
  if (model.width == 0) model.width = shape.width;
  if (app.count("--precision") == 0) devices.precision = Precision::kBf16;

  const CostModel cost(model, devices.precision);
  const auto spread = static_cast<double>(devices.per_worker);
  const bool monolithic = options.mode == Mode::kMonolithic;
  const DeviceProfile& compute = *FindDeviceProfile(devices.compute.profile);
  const DeviceProfile& update = *FindDeviceProfile(devices.update.profile);
  const auto unless = [&](const char* flag, auto& value, auto of_model) {
    if (app.count(flag) == 0) value = of_model;
  };
  unless("--forward-ms", options.forward_seconds, cost.ForwardSeconds(compute) / spread);
  unless("--backward-ms", options.backward_seconds, cost.BackwardSeconds(compute) / spread);
  unless("--update-ms", options.update_seconds,
         monolithic ? cost.UpdateSeconds(compute) / spread : cost.UpdateSeconds(update));
  // Summed and kept in fp32; what crosses the links is of the precision.
  const auto bytes = static_cast<uint64_t>(model.parameters * sizeof(float));
  unless("--gradient-bytes", options.gradient_bytes, bytes);
  unless("--weight-bytes", options.weight_bytes, bytes);
  unless("--offload-bandwidth", options.state.offload.bytes_per_second,
         FindLinkProfile(update.host_link)->achieved_bytes_per_second());
  if (devices.precision == Precision::kBf16) {
    unless("--gradients-codec", options.gradients.codec, Codec::kBf16);
    unless("--weights-codec", options.weights.codec, Codec::kBf16);
  }
}

// Of the flags that make workers share devices.
std::string CheckSharing(const Options& options) {
  const DeviceOptions& devices = options.devices;
  const bool numbered = devices.compute.number || devices.update.number;
  const bool one = devices.shared || (numbered && devices.compute.number == devices.update.number);
  if ((devices.shared || numbered) && options.mode == Mode::kMonolithic) {
    return "a monolithic run has one worker: --shared-device and devices with @N need more";
  }
  if (devices.shared && numbered) return "--shared-device excludes devices with @N";
  if (one && devices.compute.profile != devices.update.profile) {
    return fmt::format("one device cannot be {} and {}", DeviceName(devices.compute),
                       DeviceName(devices.update));
  }
  if (devices.per_worker > 1 && (devices.shared || numbered)) {
    return "--devices-per-worker excludes devices that workers share";
  }
  if (devices.memory_leak_bytes > 0) {
    if (devices.shared || numbered) return "--memory-leak excludes shared devices";
    if (DeviceCapacity(options, PoolRole::kCompute) == 0) {
      return "--memory-leak needs --device-memory or a profile";
    }
  }
  return "";
}

void ScaleTimes(Options& options) {
  const double scale = options.devices.time_scale;
  for (double* seconds :
       {&options.forward_seconds, &options.backward_seconds, &options.update_seconds}) {
    *seconds *= scale;
  }
  options.state.offload.bytes_per_second /= scale;
  options.checkpoint.bytes_per_second /= scale;
  for (Link::Shape* shape :
       {&options.gradients.shape, &options.weights.shape, &options.all_reduce.hop}) {
    shape->bytes_per_second /= scale;
    shape->latency_ns = std::llround(static_cast<double>(shape->latency_ns) * scale);
  }
  ReliabilityOptions& reliability = options.reliability;
  for (int64_t* ns : {&reliability.gradients.faults.delay_ns, &reliability.weights.faults.delay_ns,
                      &reliability.requests.faults.delay_ns, &reliability.timeout_ns}) {
    *ns = std::llround(static_cast<double>(*ns) * scale);
  }
}

// The first of `flags` that was given, or null.
const char* Given(const CLI::App& app, std::initializer_list<const char*> flags) {
  for (const char* flag : flags) {
    if (app.count(flag) > 0) return flag;
  }
  return nullptr;
}

}  // namespace

uint64_t DeviceOf(const Options& options, PoolRole pool, uint64_t index) {
  constexpr uint64_t kOwn = 1 << 16, kOfUpdate = 1 << 24;  // beyond the numbers that flags give
  const DeviceOptions& devices = options.devices;
  const bool compute = pool == PoolRole::kCompute;
  const DeviceSpec& spec = devices.Of(pool);
  if (spec.number) return *spec.number;
  if (compute) return kOwn + index;
  return devices.shared ? kOwn + index % options.compute_workers : kOfUpdate + index;
}

void AddDeviceOptions(CLI::App& app, Options& options) {
  DeviceOptions& devices = options.devices;
  AddSpec(
      app, "--device",
      [&devices](const DeviceSpec& spec) { devices.compute = devices.update = spec; },
      "cpu, cuda: real arithmetic (cuda:N: on that GPU; cuda: workers take turns at all); "
      "emulated: "
      "stated times; emulated:PROFILE: times of a cost model "
      "(default cpu)");
  AddSpec(
      app, "--compute-device", [&devices](const DeviceSpec& spec) { devices.compute = spec; },
      "of pool compute alone; @N after it: one device for all its workers");
  AddSpec(
      app, "--update-device", [&devices](const DeviceSpec& spec) { devices.update = spec; },
      "of pool update alone");
  app.add_option_function<std::string>(
         "--precision",
         [&devices](const std::string& text) {
           devices.precision = text == "fp32" ? Precision::kFp32 : Precision::kBf16;
         },
         "of products, and on emulated devices of what crosses the links: fp32 or bf16 (default "
         "bf16; "
         "on cuda fp32)")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->type_name("P");
  const auto link = [&](const char* flag, const std::string& help) {
    const std::string text = help + ": " + KnownLinkProfiles();
    app.add_option(flag, text)
        ->check([](const std::string& name) {
          if (FindLinkProfile(name)) return std::string();
          return fmt::format("'{}' is none of {}", name, KnownLinkProfiles());
        })
        ->type_name("PROFILE")
        ->group("Links");
  };
  link("--link", "bandwidth and latency of both links as achieved by");
  link("--gradients-link", "of gradients alone");
  link("--weights-link", "of weights alone");
  AddStated(app, options);
  AddMemory(app, devices);
  AddModel(app, devices);
}

std::string ResolveDevices(const CLI::App& app, Options& options) {
  const DeviceOptions& devices = options.devices;
  const DeviceSpec &compute = devices.compute, &update = devices.update;
  if ((compute.kind == DeviceKind::kEmulated) != (update.kind == DeviceKind::kEmulated)) {
    return fmt::format("devices {} and {} do not go together: emulated are both pools or none",
                       DeviceName(compute), DeviceName(update));
  }
  if (compute.profile.empty() != update.profile.empty()) {
    return fmt::format("devices {} and {} do not go together: both have a profile or none",
                       DeviceName(compute), DeviceName(update));
  }
  if (!devices.emulated()) {
    if (const char* flag =
            Given(app, {"--math", "--forward-ms", "--backward-ms", "--update-ms", "--jitter",
                        "--gradient-bytes", "--weight-bytes", "--time-scale", "--shared-device",
                        "--device-memory", "--memory-leak"})) {
      return fmt::format("{} needs --device emulated", flag);
    }
  }
  if (compute.profile.empty()) {
    if (compute.kind != DeviceKind::kCuda && app.count("--precision") > 0) {
      return "--precision needs compute on cuda or emulated:PROFILE";
    }
    if (const char* flag =
            Given(app, {"--model-parameters", "--model-layers", "--model-width", "--model-context",
                        "--model-batch", "--devices-per-worker"})) {
      return fmt::format("{} needs --device emulated:PROFILE", flag);
    }
  }
  for (auto [name, shape] : {std::pair("gradients", &options.gradients.shape),
                             std::pair("weights", &options.weights.shape)}) {
    const std::string own = fmt::format("--{}-link", name);
    for (const std::string& flag : {own, std::string("--link")}) {
      if (app.count(flag) == 0) continue;
      Use(*FindLinkProfile(app.get_option(flag)->as<std::string>()), app, name, *shape);
      break;
    }
  }
  if (!compute.profile.empty()) UseProfiles(app, options);
  if (devices.emulated()) {
    if (const std::string error = CheckSharing(options); !error.empty()) return error;
    ScaleTimes(options);
    // Small enough to fit in the stated times.
    ModelOptions& tiny = options.model;
    if (app.count("--layers") == 0) tiny.layers = 1;
    if (app.count("--width") == 0) tiny.width = 32;
    if (app.count("--heads") == 0) tiny.heads = 2;
    if (app.count("--context") == 0) tiny.context = 32;
    if (app.count("--batch") == 0) tiny.batch = 2;
  }
  return "";
}

}  // namespace poolscope::trainer
