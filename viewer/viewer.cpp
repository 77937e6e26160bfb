#include "viewer/viewer.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "viewer/offscreen.h"
#include "viewer/window.h"

namespace poolscope {
namespace {

constexpr auto kScreenshotPatience = std::chrono::seconds(120);
constexpr auto kErrorPatience = std::chrono::seconds(2);  // a store being written may come right

Status TakeScreenshot(const ViewModel& model, App& app, const ViewerOptions& options) {
  Result<std::unique_ptr<Offscreen>> screen = Offscreen::Make(options.width, options.height);
  if (!screen) return screen.error();
  Result<std::unique_ptr<Gui>> gui = Gui::Make(options.scale > 0 ? options.scale : 1);
  if (!gui) return gui.error();
  const auto started = std::chrono::steady_clock::now();
  auto last_without_error = started;
  bool settled = false;
  while (true) {
    (*gui)->Begin({}, options.width, options.height, 1.0 / 60);
    app.Frame({}, **gui, options.width, options.height);
    (*gui)->End(options.width, options.height);
    // The frame that finds all settled still drew what was there before: one more.
    if (settled && app.settled() && !app.restless()) break;
    settled = app.settled();
    const auto now = std::chrono::steady_clock::now();
    if (const std::string error = model.answer()->error; error.empty()) {
      last_without_error = now;
    } else if (now - last_without_error > kErrorPatience) {
      return Error{error};
    }
    if (now - started > kScreenshotPatience) {
      return Error{fmt::format("{}: reading it for the screenshot takes longer than {} s",
                               options.store.string(), kScreenshotPatience.count())};
    }
    if (!settled) std::this_thread::sleep_for(std::chrono::milliseconds(4));
  }
  if (options.begin_seconds > app.run_seconds()) {
    return Error{fmt::format("--begin {}: the run ends {:.3f} s after its start",
                             options.begin_seconds, app.run_seconds())};
  }
  if (options.select_finding >= app.findings()) {
    return Error{fmt::format("--select {}: the run has {} findings, counted from 0",
                             options.select_finding, app.findings())};
  }
  if (!options.search.empty() && !model.found().key) {
    return Error{
        fmt::format("--search {}: no range in sight or after it has such a name", options.search)};
  }
  (*screen)->Finish();
  return (*screen)->WritePng(options.screenshot);
}

}  // namespace

Status RunViewer(const ViewerOptions& options) {
  const std::optional<Panel> panel = PanelByName(options.panel);
  if (!panel) {
    return Error{fmt::format("--panel {}: there is no such panel; overview, details, statistics",
                             options.panel)};
  }
  Waker waker;
  ViewModel::Options model_options;
  model_options.wake = [&waker] { waker.Wake(); };
  Result<std::unique_ptr<ViewModel>> model =
      ViewModel::Open(options.store, options.run, std::move(model_options));
  if (!model) return model.error();
  AppOptions app_options;
  app_options.begin_seconds = options.begin_seconds;
  app_options.end_seconds = options.end_seconds;
  app_options.panel = *panel;
  app_options.select_finding = options.select_finding;
  app_options.program_colours = options.program_colours;
  app_options.unfold = options.unfold;
  app_options.search = options.search;
  app_options.dump_state = options.dump_state;
  App app(**model, std::move(app_options));
  if (!options.screenshot.empty()) return TakeScreenshot(**model, app, options);
  const std::string title = fmt::format("Poolscope: {}", options.store.filename().string());
  return RunWindow(app, waker, title, options.width, options.height, options.scale);
}

}  // namespace poolscope
