#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "viewer/viewer.h"

namespace poolscope {

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
  view->add_option("--begin", options->begin_seconds, "First second to show, from the run's start");
  view->add_option("--end", options->end_seconds, "Last second to show");
  view->add_option("--panel", options->panel, "overview, details or statistics")
      ->check(CLI::IsMember({"overview", "details", "statistics"}))
      ->capture_default_str();
  view->add_option("--select", options->select_finding,
                   "Go to the evidence of this finding, counted from 0");
  view->add_option("--search", options->search,
                   "Go to the first range in sight or after it whose name contains this");
  view->add_option("--scale", options->scale, "Size of text and lanes; default the display's");
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
    const Status status = RunViewer(*options);
    if (!status) {
      std::fprintf(stderr, "poolscope view: %s\n", status.error().message.c_str());
      exit_code = 1;
    }
  });
}

}  // namespace poolscope
