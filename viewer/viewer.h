#pragma once

#include <filesystem>
#include <string>

#include "trace/result.h"

namespace poolscope {

struct ViewerOptions {
  std::filesystem::path store;
  std::string run;         // prefix of its id; "" is the latest
  std::string screenshot;  // PNG to write instead of opening a window; "" none
  int width = 1600, height = 900;
  double begin_seconds = -1, end_seconds = -1;  // since the run's start; < 0: the whole run
  std::string panel = "overview";               // overview, details, statistics
  int select_finding = -1;
  bool program_colours = true;  // of ranges to which the program gave one
  bool unfold = false;          // all lanes are open
  std::string search;           // goes to the first range whose name contains it
  float scale = 0;              // of the text; 0: the display's
  std::string dump_state;       // file that gets the view as JSON at each change, for tests
};

// Shows a store in a window until it is closed, or draws one picture of it. Error: no store, no
// such run, no display, a picture that cannot be written.
Status RunViewer(const ViewerOptions& options);

}  // namespace poolscope
