#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "tests/bench/synthetic_run.h"
#include "viewer/app.h"
#include "viewer/offscreen.h"

// viewer_bench [--store F | --events N]: frame times of the viewer at 1600x900, drawn off-screen,
// while keys and wheel zoom and pan over a store of N synthetic events.
namespace poolscope {
namespace {

using Clock = std::chrono::steady_clock;

double Ms(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

Status FillStore(const std::string& path, int64_t events) {
  Result<Store> store = Store::Open(path, Store::Mode::kWrite);
  if (!store) return store.error();
  bench::RunShape shape;
  bench::SyntheticRun run(*store, shape, "5eed0000000000000000000000000001");
  Status status = store->Begin();
  if (status) status = run.PutRun();
  for (int64_t made = 0; status && made < events;) {
    run.Make(std::min<int64_t>(events - made, 200'000));
    Result<int64_t> appended = run.Append();
    if (!appended) return appended.error();
    made += *appended;
    status = store->Commit();
    if (status) status = store->Begin();
  }
  if (status) status = run.Finish();
  return status ? store->Commit() : status;
}

// CPU time of all threads of this process, in milliseconds.
double CpuMs() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// Peak resident memory of this process, in MB.
double PeakMb() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word == "VmHWM:") {
      double kb = 0;
      status >> kb;
      return kb / 1024;
    }
  }
  return 0;
}

InputEvent Key(int key) {
  InputEvent event;
  event.kind = InputEvent::Kind::kKey;
  event.code = key;
  event.down = true;
  event.repeat = true;
  return event;
}

InputEvent Wheel(float x, float amount) {
  InputEvent event;
  event.kind = InputEvent::Kind::kWheel;
  event.x = x;
  event.y = 300;
  event.dy = amount;
  return event;
}

// What a user does in half a minute: in to single messages, along, out, down the lanes, and back.
std::vector<InputEvent> Script() {
  std::vector<InputEvent> script;
  for (int round = 0; round < 3; ++round) {
    const float x = 400 + 250.0f * static_cast<float>(round);
    for (int i = 0; i < 50; ++i) script.push_back(Wheel(x, 1));
    for (int i = 0; i < 25; ++i) script.push_back(Key('D'));
    for (int i = 0; i < 25; ++i) script.push_back(Key('A'));
    for (int i = 0; i < 20; ++i) script.push_back(Key(kKeyDown));
    for (int i = 0; i < 50; ++i) script.push_back(Wheel(x, -1));
    for (int i = 0; i < 20; ++i) script.push_back(Key(kKeyUp));
    script.push_back(Key('F'));
  }
  return script;
}

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

void Figure(const char* name, double value, const char* unit, const char* bar, const char* note) {
  std::printf("%s\t%.2f\t%s\t%s\t%s\n", name, value, unit, bar, note);
}

Status Measure(const std::string& path) {
  constexpr int kWidth = 1600;
  constexpr int kHeight = 900;
  const Clock::time_point opened = Clock::now();
  Result<std::unique_ptr<ViewModel>> model = ViewModel::Open(path, "", {});
  if (!model) return model.error();
  Result<std::unique_ptr<Offscreen>> screen = Offscreen::Make(kWidth, kHeight);
  if (!screen) return screen.error();
  Result<std::unique_ptr<Gui>> gui = Gui::Make(1);
  if (!gui) return gui.error();
  App app(**model, {});
  const auto frame = [&](const std::deque<InputEvent>& events) {
    const Clock::time_point started = Clock::now();
    (*gui)->Begin(events, kWidth, kHeight, 1.0 / 60);
    app.Frame(events, **gui, kWidth, kHeight);
    (*gui)->End(kWidth, kHeight);
    (*screen)->Finish();
    return Ms(started);
  };
  frame({});
  const double first = Ms(opened);
  std::vector<double> waiting;
  while (!app.settled()) {
    waiting.push_back(frame({}));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const double whole = Ms(opened);
  frame({});
  double empty = 1e9;  // the same picture again: what drawing it costs at the least
  const double cpu_before = CpuMs();
  for (int i = 0; i < 20; ++i) empty = std::min(empty, frame({}));
  const double cpu = (CpuMs() - cpu_before) / 20;
  const int vertices = ImGui::GetIO().MetricsRenderVertices;
  std::vector<double> times;
  int largest = 0;
  for (const InputEvent& event : Script()) {
    times.push_back(frame({event}));
    largest = std::max(largest, ImGui::GetIO().MetricsRenderVertices);
    // A hand is slower than this loop: the readers get what is left of a 60th of a second.
    const double left = 16.6 - times.back();
    if (left > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(left));
  }
  char note[96];
  std::snprintf(note, sizeof(note), "unchanged whole run %.2f ms, %.2f ms CPU, %d vertices", empty,
                cpu, vertices);
  Figure("viewer_frame_median", Quantile(times, 0.5), "ms", "<= 16", note);
  std::snprintf(note, sizeof(note), "largest frame %d vertices", largest);
  Figure("viewer_frame_p95", Quantile(times, 0.95), "ms", "<= 16", note);
  std::snprintf(note, sizeof(note), "all detail and the report after %.0f ms", whole);
  Figure("viewer_first_frame", first, "ms", "<= 1000", note);
  std::snprintf(note, sizeof(note), "cache %.0f MB, %llu chunks read",
                static_cast<double>((*model)->counters().cache_bytes) / 1e6,
                static_cast<unsigned long long>((*model)->counters().chunks_read));
  Figure("viewer_peak_memory", PeakMb(), "MB", "<= 500", note);
  return {};
}

}  // namespace
}  // namespace poolscope

int main(int argc, char** argv) {
  CLI::App app{"Frame times of the viewer, drawn off-screen"};
  std::string store;
  int64_t events = 10'000'000;
  app.add_option("--store", store, "an existing store; default: a synthetic one");
  app.add_option("--events", events, "of the synthetic store")->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  std::filesystem::path made;
  if (store.empty()) {
    made = std::filesystem::temp_directory_path() /
           ("poolscope-viewer-bench-" + std::to_string(getpid()));
    std::filesystem::create_directory(made);
    store = (made / "run.db").string();
    const poolscope::Status status = poolscope::FillStore(store, events);
    if (!status.ok()) {
      std::fprintf(stderr, "viewer_bench: %s\n", status.error().message.c_str());
      return 1;
    }
  }
  const poolscope::Status status = poolscope::Measure(store);
  if (!made.empty()) std::filesystem::remove_all(made);
  if (!status.ok()) {
    std::fprintf(stderr, "viewer_bench: %s\n", status.error().message.c_str());
    return 1;
  }
  return 0;
}
