#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "viewer/viewer.h"

namespace poolscope {

namespace {

std::string NotNegative(const std::string& text) {
  return std::strtod(text.c_str(), nullptr) < 0 ? text + " is below 0" : std::string();
}

// What is wrong with the numbers given, "" where nothing is. Below 0 means not given.
std::string BadNumber(const ViewerOptions& options) {
  const double begin = options.begin_seconds;
  const double end = options.end_seconds;
  if (!std::isfinite(begin) || !std::isfinite(end)) {
    return fmt::format("--{}: want seconds after the run's start",
                       std::isfinite(begin) ? "end" : "begin");
  }
  if (end >= 0 && end <= std::max(0.0, begin)) {
    return fmt::format("--begin {} is not before --end {}", std::max(0.0, begin), end);
  }
  return "";
}

}  // namespace

void AddViewCommand(CLI::App& app, int& exit_code) {
  CLI::App* view = app.add_subcommand("view", "Browse a store: timeline, links, findings");
  auto options = std::make_shared<ViewerOptions>();
  auto store = std::make_shared<std::string>();
  auto size = std::make_shared<std::string>("1600x900");
  view->add_option("store", *store, "Store to show, also while it is written")->required();
  view->add_option("--run", options->run, "Run by the first digits of its id; default the latest");
  view->add_option("--screenshot", options->screenshot,
                   "Write a PNG instead of opening a window; needs no display");
  view->add_option("--size", *size, "Size of window or picture in pixels, as 1600x900")
      ->capture_default_str();
  view->add_option("--begin", options->begin_seconds, "First second to show, from the run's start")
      ->check(NotNegative);
  view->add_option("--end", options->end_seconds, "Last second to show")->check(NotNegative);
  view->add_option("--panel", options->panel, "overview, details or statistics")
      ->check(CLI::IsMember({"overview", "details", "statistics"}))
      ->capture_default_str();
  view->add_option(
          "--select", options->select_finding,
          "Go to the evidence of this finding, counted from 0, and mark it; with --begin or "
          "--end the span they give stays")
      ->check(NotNegative);
  view->add_option("--search", options->search,
                   "Go to the first range in sight or after it whose name contains this");
  view->add_option_function<std::string>(
          "--colours",
          [options](const std::string& text) { options->program_colours = text == "program"; },
          "Of ranges: those that the program set (program), or by name alone (name); C switches")
      ->check(CLI::IsMember({"program", "name"}))
      ->default_str("program");
  view->add_flag("--unfold", options->unfold, "Open all folded lanes; E does");
  view->add_option("--scale", options->scale, "Size of text and lanes; default the display's")
      ->check([](const std::string& text) {
        const double scale = std::strtod(text.c_str(), nullptr);
        return scale >= 0.25 && scale <= 8 ? std::string() : text + " is not from 0.25 to 8";
      })
      ->type_name("FLOAT");
  view->add_option("--dump-state", options->dump_state)->group("");
  view->callback([=, &exit_code] {
    options->store = *store;
    char rest = 0;
    if (std::sscanf(size->c_str(), "%dx%d%c", &options->width, &options->height, &rest) != 2 ||
        options->width < 320 || options->height < 200 || options->width > 16384 ||
        options->height > 16384) {
      std::fprintf(stderr, "poolscope view: --size %s: want WIDTHxHEIGHT, 320x200 to 16384x16384\n",
                   size->c_str());
      exit_code = 2;
      return;
    }
    const std::string wrong = BadNumber(*options);
    if (!wrong.empty()) {
      std::fprintf(stderr, "poolscope view: %s\n", wrong.c_str());
      exit_code = 2;
      return;
    }
    const Status status = RunViewer(*options);
    if (!status) {
      std::fprintf(stderr, "poolscope view: %s\n", status.error().message.c_str());
      exit_code = 1;
    }
  });
}

}  // namespace poolscope
