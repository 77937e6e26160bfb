#include "reference-trainer/codecs_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "reference-trainer/codec_measure.h"
#include "reference-trainer/log.h"
#include "reference-trainer/model/parameters.h"
#include "reference-trainer/run.h"
#include "reference-trainer/stop.h"

namespace poolscope::trainer {
namespace {

constexpr const char* kGradientCodecs[] = {
    "bf16",     "fp16",         "lz4",       "zstd",           "deflate", "bf16+zstd",
    "bf16+lz4", "fp16+deflate", "topk:0.01", "topk:0.01+zstd", "1bit",    "1bit+zstd"};
constexpr const char* kWeightCodecs[] = {"bf16",       "fp16",           "lz4",      "zstd",
                                         "deflate",    "bf16+zstd",      "bf16+lz4", "fp16+deflate",
                                         "1bit-delta", "1bit-delta+zstd"};
// Each is a run of its own: gradients' codec, weights' codec.
constexpr std::pair<const char*, const char*> kRuns[] = {
    {"none", "none"},       {"lz4", "lz4"},
    {"zstd", "zstd"},       {"deflate", "deflate"},
    {"bf16", "none"},       {"none", "bf16"},
    {"bf16", "bf16"},       {"bf16+zstd", "bf16+zstd"},
    {"fp16", "fp16"},       {"fp16+deflate", "fp16+deflate"},
    {"topk:0.1", "none"},   {"topk:0.01", "none"},
    {"1bit", "none"},       {"none", "1bit-delta"},
    {"bf16", "1bit-delta"}, {"1bit", "1bit-delta"}};

struct Request {
  Options options;
  bool json = false;
  bool final_loss = false;
  std::vector<std::string> codecs;
};

// A kind of tensor: where its values lie among all parameters.
struct Kind {
  std::string name;
  std::vector<Tensor> tensors;

  std::vector<float> Gather(std::span<const float> all) const {
    std::vector<float> values;
    for (const Tensor& tensor : tensors) {
      const auto part = all.subspan(tensor.offset, tensor.size);
      values.insert(values.end(), part.begin(), part.end());
    }
    return values;
  }
};

std::vector<Kind> KindsOf(const Parameters& parameters) {
  std::vector<Kind> kinds = {
      {"embedding", {}}, {"attention", {}}, {"MLP", {}}, {"norm", {}}, {"all", {}}};
  for (const Tensor& tensor : parameters.tensors()) {
    const auto has = [&](const char* part) { return tensor.name.find(part) != std::string::npos; };
    const size_t kind = has("norm")                        ? 3
                        : has("qkv") || has("projection")  ? 1
                        : has("expand") || has("contract") ? 2
                                                           : 0;  // the head too
    kinds[kind].tensors.push_back(tensor);
    kinds.back().tensors.push_back(tensor);
  }
  return kinds;
}

struct Row {
  const char* payload;
  std::string codec, kind;
  StreamMeasure measure;
};

std::variant<Request, Exit> Parse(int argc, const char* const* argv) {
  Request request;
  Options& options = request.options;
  options.steps = 100;
  CLI::App app(
      "Measures codecs on the gradients and weights of this model: trains it on the cpu, and in "
      "the\n"
      "last tenth of the steps sends each step's gradients and weights through every codec.",
      "poolscope-trainer codecs");
  app.set_help_flag("--help", "print this and exit");
  app.add_flag("--json", request.json, "print one JSON object in place of the table");
  app.add_flag("--final-loss", request.final_loss,
               "train once per codec instead, synchronously on 2 compute workers and 1 update "
               "worker, and print final loss against bytes");
  app.add_option("--codec", request.codecs,
                 "measure these only; with --final-loss GRADIENTS,WEIGHTS (repeatable)")
      ->type_name("CODEC");
  app.add_option("--steps", options.steps, "optimizer updates to make")
      ->check(CLI::Range(uint64_t{10}, uint64_t{1} << 40))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--micro-batches", options.micro_batches, "micro-batches of a step")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 16))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of weights and data order")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--data", options.data, "file to learn from (default: a text of the system's own)")
      ->type_name("FILE");
  AddModelOptions(app, options.model);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return Exit{0, app.help()};
  } catch (const CLI::ParseError& error) {
    return WrongUsage(error.what(), "codecs");
  }
  if (const std::string error = CheckModel(app, options.model); !error.empty()) {
    return WrongUsage(error, "codecs");
  }
  return request;
}

// The chains to measure on one link: all, or those asked for that suit it. The string is an error.
std::variant<std::vector<Codec>, std::string> CodecsFor(const Request& request, CodecUse use) {
  std::vector<Codec> codecs;
  const auto add = [&](const std::string& text) -> std::string {
    const auto codec = ParseCodec(text, use);
    if (const auto* error = std::get_if<std::string>(&codec)) return *error;
    codecs.push_back(std::get<Codec>(codec));
    return "";
  };
  if (request.codecs.empty()) {
    if (use == CodecUse::kGradients) {
      for (const char* text : kGradientCodecs) add(text);
    } else {
      for (const char* text : kWeightCodecs) add(text);
    }
  }
  const CodecUse other = use == CodecUse::kGradients ? CodecUse::kWeights : CodecUse::kGradients;
  for (const std::string& text : request.codecs) {
    const std::string error = add(text);
    const auto elsewhere = ParseCodec(text, other);
    if (!error.empty() && !std::holds_alternative<Codec>(elsewhere)) return "--codec: " + error;
  }
  return codecs;
}

// Trains, and fills the rows from the last tenth of the steps. An error, or "".
std::string MeasureRows(const Request& request, const Corpus& corpus, std::deque<Row>& rows) {
  Options options = request.options;
  options.mode = Mode::kMonolithic;
  const Job job(options, &corpus);
  const auto replica = job.MakeReplica();
  const auto shard = job.MakeShard(job.AllRanges());
  const ModelOptions& model = options.model;
  const auto kinds = KindsOf(Parameters(ShapeOf(model)));
  for (const auto& [use, payload] :
       {std::pair{CodecUse::kGradients, "gradients"}, std::pair{CodecUse::kWeights, "weights"}}) {
    const auto codecs = CodecsFor(request, use);
    if (const auto* error = std::get_if<std::string>(&codecs)) return *error;
    for (const Codec& codec : std::get<std::vector<Codec>>(codecs)) {
      for (const Kind& kind : kinds) {
        rows.push_back({payload, CodecName(codec), kind.name, StreamMeasure(codec)});
      }
    }
  }
  const uint64_t counted = std::max<uint64_t>(options.steps / 10, 1);
  const uint64_t before = counted;  // for residuals and copies to become what they will be
  for (uint64_t step = 0; step < options.steps; ++step) {
    if (StopSignal() != 0) return "stopped";
    replica->ClearGradients();
    for (uint64_t m = 0; m < options.micro_batches; ++m) {
      const auto batch = job.ReadBatch(step * options.micro_batches + m, options.model.batch);
      replica->Forward(*batch);
      replica->Backward();
    }
    shard->Add(replica->Gradients(job.AllRanges()));
    shard->Update(1.0 / static_cast<double>(options.micro_batches));
    replica->Install(job.AllRanges(), shard->values());
    if (step + counted + before < options.steps) continue;
    for (size_t i = 0; i < rows.size(); ++i) {
      Row& row = rows[i];
      const bool gradients = row.payload == std::string_view("gradients");
      if (step + counted == options.steps) row.measure.StartCounting();
      std::string error;
      const auto values = kinds[i % kinds.size()].Gather(
          gradients ? replica->Gradients(job.AllRanges()) : shard->values());
      if (!row.measure.Add(values, error)) {
        return fmt::format("codec {} on {}: {}", row.codec, row.payload, error);
      }
    }
  }
  return "";
}

// A share as a percentage, and nothing saved as 0.0 whichever side it is on.
double Percent(double share) { return std::round(1000 * share) / 10 + 0.0; }

std::string Sum(const Row& row) {
  // Weights are no sum; only gradients are added up by what receives them.
  if (row.payload != std::string_view("gradients")) return "-";
  return fmt::format("{:.2e}", row.measure.RelativeErrorOfSum());
}

std::string TableOf(const std::deque<Row>& rows) {
  std::string text = fmt::format(
      "{:<10} {:<16} {:<10} {:>10} {:>8} {:>8} {:>13} {:>13} {:>10} {:>10}\n", "payload", "codec",
      "kind", "raw bytes", "ratio", "saved", "encode", "decode", "error", "sum error");
  for (const Row& row : rows) {
    const CodecFigures figures = row.measure.Figures();
    text += fmt::format(
        "{:<10} {:<16} {:<10} {:>10} {:>7.2f}x {:>6.1f} % {:>8.0f} MB/s {:>8.0f} MB/s {:>10.2e} "
        "{:>10}\n",
        row.payload, row.codec, row.kind, row.measure.message_bytes(), 1 / figures.ratio,
        Percent(1 - figures.ratio), figures.encode_bytes_per_second / 1e6,
        figures.decode_bytes_per_second / 1e6, row.measure.RelativeError(), Sum(row));
  }
  return text;
}

std::string Number(double value) {
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : "null";
}

std::string JsonOf(const std::deque<Row>& rows) {
  std::string text;
  for (const Row& row : rows) {
    const CodecFigures figures = row.measure.Figures();
    const bool gradients = row.payload == std::string_view("gradients");
    text += fmt::format(
        "{}{{\"payload\":\"{}\",\"codec\":\"{}\",\"kind\":\"{}\",\"raw_bytes\":{},\"ratio\":{},"
        "\"encode_bytes_per_second\":{},\"decode_bytes_per_second\":{},\"relative_error\":{},"
        "\"relative_error_of_sum\":{}}}",
        text.empty() ? "" : ",\n", row.payload, row.codec, row.kind, row.measure.message_bytes(),
        Number(figures.ratio), Number(figures.encode_bytes_per_second),
        Number(figures.decode_bytes_per_second), Number(row.measure.RelativeError()),
        gradients ? Number(row.measure.RelativeErrorOfSum()) : "null");
  }
  return "{\"codecs\":[" + text + "]}\n";
}

struct Outcome {
  std::string gradients, weights;
  double final_loss = 0;
  RunTotals totals;
};

// The pairs of codecs to train with. The string is an error.
std::variant<std::vector<std::pair<Codec, Codec>>, std::string> RunsOf(const Request& request) {
  std::vector<std::pair<std::string, std::string>> pairs(std::begin(kRuns), std::end(kRuns));
  if (!request.codecs.empty()) pairs = {pairs.front()};  // to compare with
  for (const std::string& text : request.codecs) {
    const size_t comma = text.find(',');
    if (comma == std::string::npos) {
      return fmt::format("--codec {}: --final-loss needs two codecs, such as 1bit,bf16", text);
    }
    pairs.emplace_back(text.substr(0, comma), text.substr(comma + 1));
  }
  std::vector<std::pair<Codec, Codec>> runs;
  for (const auto& [gradients, weights] : pairs) {
    const auto first = ParseCodec(gradients, CodecUse::kGradients);
    const auto second = ParseCodec(weights, CodecUse::kWeights);
    for (const auto* each : {&first, &second}) {
      if (const auto* error = std::get_if<std::string>(each)) return "--codec: " + *error;
    }
    runs.emplace_back(std::get<Codec>(first), std::get<Codec>(second));
  }
  return runs;
}

std::string TrainRuns(const Request& request, const Corpus& corpus,
                      const std::vector<std::pair<Codec, Codec>>& runs,
                      std::vector<Outcome>& outcomes) {
  for (const auto& [gradients, weights] : runs) {
    Options options = request.options;
    options.gradients.codec = gradients;
    options.weights.codec = weights;
    std::vector<StepRecord> records;
    Outcome outcome{CodecName(gradients), CodecName(weights)};
    std::string failure = Train(
        options, &corpus, [&](const StepRecord& record) { records.push_back(record); },
        [] { return StopSignal() != 0; }, &outcome.totals);
    if (!failure.empty()) return failure;
    if (StopSignal() != 0) return "stopped";
    outcome.final_loss = Summarize(records).final_loss.value_or(std::nan(""));
    outcomes.push_back(outcome);
  }
  return "";
}

double Saved(const Link::Traffic& traffic) {
  return 1 - static_cast<double>(traffic.wire_bytes) / static_cast<double>(traffic.raw_bytes);
}

std::string TableOf(const std::vector<Outcome>& outcomes) {
  std::string text =
      fmt::format("{:<14} {:<14} {:>11} {:>9} {:>16} {:>14} {:>11}\n", "gradients", "weights",
                  "final loss", "change", "gradients saved", "weights saved", "both saved");
  for (const Outcome& each : outcomes) {
    const Link::Traffic &g = each.totals.gradients, &w = each.totals.weights;
    const Link::Traffic both = {g.raw_bytes + w.raw_bytes, g.wire_bytes + w.wire_bytes};
    text += fmt::format("{:<14} {:<14} {:>11.5f} {:>+7.2f} % {:>14.1f} % {:>12.1f} % {:>9.1f} %\n",
                        each.gradients, each.weights, each.final_loss,
                        100 * (each.final_loss / outcomes.front().final_loss - 1),
                        Percent(Saved(g)), Percent(Saved(w)), Percent(Saved(both)));
  }
  return text;
}

std::string JsonOf(const std::vector<Outcome>& outcomes) {
  std::string text;
  for (const Outcome& each : outcomes) {
    const Link::Traffic &g = each.totals.gradients, &w = each.totals.weights;
    text += fmt::format(
        "{}{{\"gradients\":\"{}\",\"weights\":\"{}\",\"final_loss\":{},\"gradients_raw_bytes\":{},"
        "\"gradients_wire_bytes\":{},\"weights_raw_bytes\":{},\"weights_wire_bytes\":{}}}",
        text.empty() ? "" : ",\n", each.gradients, each.weights, Number(each.final_loss),
        g.raw_bytes, g.wire_bytes, w.raw_bytes, w.wire_bytes);
  }
  return "{\"runs\":[" + text + "]}\n";
}

int Failed(const std::string& what) {
  fmt::print(stderr, "poolscope-trainer codecs: {}\n", what);
  return StopSignal() != 0 ? 128 + StopSignal() : 1;
}

int Print(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return 0;
  return Failed("cannot write to standard output; is the disk full?");
}

int Wrong(const std::string& what) {
  const Exit exit = WrongUsage(what, "codecs");
  fmt::print(stderr, "{}", exit.text);
  return exit.code;
}

}  // namespace

int CodecsCommand(int argc, const char* const* argv) {
  const auto parsed = Parse(argc, argv);
  if (const Exit* exit = std::get_if<Exit>(&parsed)) {
    fmt::print(exit->code == 0 ? stdout : stderr, "{}", exit->text);
    return exit->code;
  }
  const Request& request = *std::get_if<Request>(&parsed);
  const auto runs = request.final_loss ? RunsOf(request) : std::vector<std::pair<Codec, Codec>>{};
  if (const auto* error = std::get_if<std::string>(&runs)) return Wrong(*error);
  for (const CodecUse use : {CodecUse::kGradients, CodecUse::kWeights}) {
    if (request.final_loss) break;
    const auto codecs = CodecsFor(request, use);
    if (const auto* error = std::get_if<std::string>(&codecs)) return Wrong(*error);
  }
  const auto corpus = LoadCorpus(request.options.data, request.options.model.context);
  if (const auto* error = std::get_if<std::string>(&corpus)) return Failed(*error);

  WatchStopSignals();
  const Corpus& text = std::get<Corpus>(corpus);
  if (request.final_loss) {
    std::vector<Outcome> outcomes;
    const std::string error =
        TrainRuns(request, text, std::get<std::vector<std::pair<Codec, Codec>>>(runs), outcomes);
    if (!error.empty()) return Failed(error);
    return Print(request.json ? JsonOf(outcomes) : TableOf(outcomes));
  }
  std::deque<Row> rows;
  if (const std::string error = MeasureRows(request, text, rows); !error.empty()) {
    return Failed(error);
  }
  return Print(request.json ? JsonOf(rows) : TableOf(rows));
}

}  // namespace poolscope::trainer
