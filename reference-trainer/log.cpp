#include "reference-trainer/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "reference-trainer/memory.h"

namespace poolscope::trainer {
namespace {

constexpr size_t kFinalSteps = 20;

double Seconds(int64_t from_ns, int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) / 1e9;
}

std::string Bytes(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.4g} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.4g} MB", bytes / 1e6);
  if (bytes >= 1e3) return fmt::format("{:.4g} kB", bytes / 1e3);
  return fmt::format("{:.0f} B", bytes);
}

std::string Speed(const LinkOptions& link) {
  const double rate = link.shape.bytes_per_second;
  return fmt::format("{}, latency {:.3g} ms, depth {}, codec {}",
                     rate > 0 ? Bytes(rate) + "/s" : "unlimited bandwidth",
                     static_cast<double>(link.shape.latency_ns) / 1e6, link.shape.depth,
                     CodecName(link.codec));
}

std::string JsonNumber(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{:.9g}", *value) : "null";
}

std::string OrDash(std::optional<double> value, const char* format) {
  return value && std::isfinite(*value) ? fmt::format(fmt::runtime(format), *value) : "-";
}

}  // namespace

Summary Summarize(const std::vector<StepRecord>& records) {
  Summary summary;
  summary.steps = records.size();
  if (records.empty()) return summary;
  const size_t last = records.size() - 1, first = records.size() / 10;
  std::vector<double> seconds;
  double tokens = 0;
  for (size_t i = first + 1; i <= last; ++i) {
    seconds.push_back(Seconds(records[i - 1].end_ns, records[i].end_ns));
    tokens += static_cast<double>(records[i].tokens);
  }
  if (!seconds.empty()) {
    std::sort(seconds.begin(), seconds.end());
    const size_t half = seconds.size() / 2;
    summary.step_seconds_median =
        seconds.size() % 2 == 1 ? seconds[half] : (seconds[half - 1] + seconds[half]) / 2;
    const double span = Seconds(records[first].end_ns, records[last].end_ns);
    if (span > 0) summary.tokens_per_second = tokens / span;
  }
  const size_t begin = records.size() - std::min(records.size(), kFinalSteps);
  double loss = 0;
  for (size_t i = begin; i < records.size(); ++i) loss += records[i].loss;
  if (std::isfinite(loss)) {
    summary.final_loss = loss / static_cast<double>(records.size() - begin);
  }
  return summary;
}

Log::Log(const Options& options)
    : options_(options),
      terminal_(options.transport != TransportKind::kMpi && isatty(STDOUT_FILENO) == 1) {}

template <typename... Args>
void Log::Print(fmt::format_string<Args...> format, Args&&... args) {
  // Not fmt::print, which throws where the disk is full.
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && stdout_error_ == 0) {
    stdout_error_ = errno;
  }
}

std::string Log::OpenJson() {
  if (options_.json_log.empty()) return "";
  json_.reset(std::fopen(options_.json_log.c_str(), "w"));
  if (json_) return "";
  return fmt::format("cannot write --json-log {}: {}", options_.json_log, std::strerror(errno));
}

void Log::Header(const Corpus* corpus, size_t parameters) {
  const Options& o = options_;
  const bool emulated = o.devices.emulated();
  if (o.mode == Mode::kMonolithic) {
    Print("poolscope-trainer: monolithic, device {}\n", DeviceName(o.devices.compute));
  } else {
    const std::string compute = DeviceName(o.devices.compute);
    const std::string update = DeviceName(o.devices.update);
    Print("poolscope-trainer: disaggregated {}, {} {} + {} {} workers, device {}\n",
          ModeName(o.mode), o.compute_workers, o.compute_pool(), o.update_workers, o.update_pool(),
          compute == update ? compute : compute + " and " + update);
  }
  if (corpus) {
    Print("  data       {}, {}, unigram entropy {:.4f} nats\n", corpus->name(),
          Bytes(static_cast<double>(corpus->size())), corpus->UnigramEntropy());
    Print("  model      {} layers, width {}, {} heads, context {}: {} parameters\n", o.model.layers,
          o.model.width, o.model.heads, o.model.context, parameters);
  }
  if (o.model.experts.count > 0) {
    Print("  experts    {}, {} a token, skew {:g}\n", o.model.experts.count,
          o.model.experts.per_token, o.model.experts.skew);
  }
  if (emulated) {
    Print("  operations forward {:.4g} ms, backward {:.4g} ms, update {:.4g} ms, jitter {:g}\n",
          o.forward_seconds * 1e3, o.backward_seconds * 1e3, o.update_seconds * 1e3, o.jitter);
  }
  const EmulatedModel& big = o.devices.model;
  if (big.parameters > 0) {
    Print("  emulated   {:.4g} G parameters, {} layers, width {}, {}, time scale {:g}\n",
          big.parameters / 1e9, big.layers, big.width, PrecisionName(o.devices.precision),
          o.devices.time_scale);
  }
  Print("  step       {} micro-batches of {} × {} tokens", o.micro_batches,
        big.parameters > 0 ? big.batch : o.model.batch,
        big.parameters > 0 ? big.context : o.model.context);
  if (o.mode == Mode::kAsync) {
    Print(", lag bound {}, stale {}", o.lag_bound, StaleName(o.stale));
  }
  Print("\n");
  if (o.mode != Mode::kMonolithic) {
    const double raw = static_cast<double>(parameters * sizeof(float));
    Print("  gradients  {} at {}\n", Bytes(emulated ? static_cast<double>(o.gradient_bytes) : raw),
          Speed(o.gradients));
    Print("  weights    {} at {}\n", Bytes(emulated ? static_cast<double>(o.weight_bytes) : raw),
          Speed(o.weights));
  }
  PrintState();
  if (emulated) {
    Print("  memory     {} a device of compute", Bytes(MemoryOf(o, PoolRole::kCompute, 0).total()));
    if (o.mode != Mode::kMonolithic) {
      Print(", {} of update", Bytes(MemoryOf(o, PoolRole::kUpdate, 0).total()));
    }
    Print("\n");
  }
  Print("{:>8} {:>9} {:>11} {:>11} {:>12}\n", "step", "loss", "tokens/s", "step time",
        "lag mean/max");
  Flush();
}

void Log::PrintState() {
  StateSizes all;
  const auto workers = StateOfWorkers(options_);
  uint64_t least = UINT64_MAX, most = 0;
  for (const StateSizes& state : workers) {
    all.parameters += state.parameters;
    all.offloaded_parameters += state.offloaded_parameters;
    least = std::min(least, state.total());
    most = std::max(most, state.total());
  }
  const auto bytes = [](uint64_t count) { return Bytes(static_cast<double>(count)); };
  Print("  state      {} weights, {} moments, {} gradient sum", bytes(all.master_weights()),
        bytes(all.first_moment() + all.second_moment()), bytes(all.gradient_sum()));
  const OffloadOptions& offload = options_.state.offload;
  if (offload.to != Offload::kNone) {
    Print("; {} offloaded to {}", bytes(all.offloaded()), OffloadName(offload.to));
  }
  if (workers.size() > 1) {
    Print("; {} {} shards of {}", workers.size(), ShardLayoutName(options_.state.layout),
          least == most ? bytes(most) : bytes(least) + " to " + bytes(most));
  }
  Print("\n");
}

// By update worker, in bytes.
std::string Log::StateJson() const {
  std::string list;
  for (const StateSizes& state : StateOfWorkers(options_)) {
    list += fmt::format(
        "{}{{\"master_weights\":{},\"first_moment\":{},\"second_moment\":{},\"gradient_sum\":{},"
        "\"resident\":{},\"offloaded\":{}}}",
        list.empty() ? "" : ",", state.master_weights(), state.first_moment(),
        state.second_moment(), state.gradient_sum(), state.resident(), state.offloaded());
  }
  return "[" + list + "]";
}

void Log::Step(const StepRecord& record) {
  records_.push_back(record);
  if (json_) {
    WriteJson(fmt::format(
        "{{\"step\":{},\"loss\":{},\"tokens\":{},\"micro_batches\":{},\"compute_workers\":{},"
        "\"end_seconds\":{:.9f},\"lag_mean\":{:.6g},\"lag_max\":{},\"discarded\":{}}}\n",
        record.step, JsonNumber(record.loss), record.tokens, record.micro_batches,
        record.compute_workers, static_cast<double>(record.end_ns) / 1e9, record.lag_mean,
        record.lag_max, record.discarded));
  }
  if (records_.size() > 1 &&
      records_[records_.size() - 2].compute_workers != record.compute_workers) {
    Print("{}  compute workers from step {} on: {}\n", terminal_ ? "\r\033[K" : "", record.step,
          record.compute_workers);
  }
  if (records_.size() % options_.log_every == 0) {
    PrintLine(record);
  } else if (terminal_) {
    Print("\r  {}/{} steps ({:.0f} %)", records_.size(), options_.steps,
          100.0 * static_cast<double>(records_.size()) / static_cast<double>(options_.steps));
    Flush();
  }
}

void Log::PrintLine(const StepRecord& record) {
  double loss = 0, lag = 0, tokens = 0;
  uint64_t lag_max = 0;
  for (size_t i = printed_; i < records_.size(); ++i) {
    loss += records_[i].loss;
    lag += records_[i].lag_mean;
    lag_max = std::max(lag_max, records_[i].lag_max);
    tokens += static_cast<double>(records_[i].tokens);
  }
  const auto count = static_cast<double>(records_.size() - printed_);
  std::optional<double> rate, milliseconds;
  if (printed_ > 0) {  // the first line has no step before it to measure from
    const double span = Seconds(records_[printed_ - 1].end_ns, record.end_ns);
    if (span > 0) rate = tokens / span;
    milliseconds = span / count * 1e3;
  } else if (records_.size() > 1) {
    const double span = Seconds(records_.front().end_ns, record.end_ns);
    if (span > 0) rate = (tokens - static_cast<double>(records_.front().tokens)) / span;
    milliseconds = span / (count - 1) * 1e3;
  }
  Print("{}{:>8} {:>9} {:>11} {:>11} {:>12}\n", terminal_ ? "\r\033[K" : "", record.step + 1,
        OrDash(loss / count, "{:.5f}"), OrDash(rate, "{:.0f}"), OrDash(milliseconds, "{:.2f} ms"),
        fmt::format("{:.2f}/{}", lag / count, lag_max));
  Flush();
  printed_ = records_.size();
}

bool Log::Finish(const RunTotals& totals) {
  if (printed_ < records_.size()) PrintLine(records_.back());
  const Summary summary = Summarize(records_);
  Print(
      "{} steps, median {} ms a step, {} tokens/s, final loss {}", summary.steps,
      summary.step_seconds_median ? fmt::format("{:.2f}", *summary.step_seconds_median * 1e3) : "-",
      OrDash(summary.tokens_per_second, "{:.0f}"), OrDash(summary.final_loss, "{:.5f}"));
  const double scale = options_.devices.time_scale;
  std::optional<double> unscaled = summary.step_seconds_median;
  if (unscaled) *unscaled /= scale;
  if (scale != 1 && unscaled) {
    Print(" (time scale {:g}: stands for {:.2f} ms)", scale, *unscaled * 1e3);
  }
  if (!records_.empty() && records_.back().discarded > 0) {
    Print(", {} gradients discarded", records_.back().discarded);
  }
  Print("\n{}", Text(totals));
  Flush();
  bool good = true;
  if (stdout_error_ != 0) {
    fmt::print(stderr, "poolscope-trainer: cannot write to standard output: {}\n",
               std::strerror(stdout_error_));
    good = false;
  }
  if (json_) {
    WriteJson(
        fmt::format("{{\"step_seconds_median\":{},\"tokens_per_second\":{},\"final_loss\":{},"
                    "\"steps\":{},\"discarded\":{},\"time_scale\":{:g},"
                    "\"unscaled_step_seconds_median\":{},\"optimizer_state\":{}{}}}\n",
                    JsonNumber(summary.step_seconds_median), JsonNumber(summary.tokens_per_second),
                    JsonNumber(summary.final_loss), summary.steps,
                    records_.empty() ? 0 : records_.back().discarded, scale, JsonNumber(unscaled),
                    StateJson(), Json(totals)));
    if (json_failed_) {
      fmt::print(stderr, "poolscope-trainer: cannot write --json-log {}: {}\n", options_.json_log,
                 "the file is incomplete; is the disk full?");
      good = false;
    }
  }
  return good;
}

void Log::Flush() {
  if (std::fflush(stdout) != 0 && stdout_error_ == 0) stdout_error_ = errno;
}

void Log::WriteJson(const std::string& line) {
  if (std::fwrite(line.data(), 1, line.size(), json_.get()) != line.size() ||
      std::fflush(json_.get()) != 0) {
    json_failed_ = true;
  }
}

}  // namespace poolscope::trainer
