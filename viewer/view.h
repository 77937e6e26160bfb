#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viewer/axis.h"
#include "viewer/input.h"
#include "viewer/lanes.h"
#include "viewer/queries.h"

namespace poolscope {

enum class Panel { kOverview, kDetails, kStatistics };
std::optional<Panel> PanelByName(const std::string& name);
const char* PanelName(Panel panel);

// Where the user is: what is in sight, selected, searched. Changed by keys, the mouse and clicks in
// panels; no drawing in here.
struct View {
  TimeAxis axis;
  int64_t run_begin_ns = 0;
  int64_t run_end_ns = 1;
  float scroll = 0;        // pixels of lanes above the sight
  float lanes_height = 0;  // of all lanes
  float sight_height = 1;
  bool fit = true;           // shows the whole run, also when it grows
  bool follow = false;       // keeps the newest time in sight
  std::vector<bool> folded;  // by lane: titles whose group is hidden, as `FoldLanes` left it

  Panel panel = Panel::kOverview;
  bool help = false;
  bool program_colours = true;  // of ranges to which the program gave one; else by name
  bool search_open = false;
  bool search_focus = false;  // the search field wants the keyboard and has not got it
  std::string search;
  uint64_t search_serial = 0;  // of the last answer that was taken up

  std::optional<EventKey> selected;
  int finding = -1;  // the selected finding's index
  struct Highlight {
    int64_t begin_ns, end_ns;
    std::string subject;  // pool or link
  };
  std::optional<Highlight> highlight;
  std::optional<std::string> reveal;  // subject to scroll to, once its lanes are known

  struct SearchOrder {
    int64_t from_ns;
    bool forward;
  };
  std::optional<SearchOrder> search_order;  // to be asked of the model

  // The whole run with a little room on both sides.
  void Fit();
  void Show(int64_t begin_ns, int64_t end_ns);
  // Zooms about `px` of the timeline; factor < 1 zooms in.
  void Zoom(double px, double factor);
  void Pan(double px);
  void Scroll(float px);
  void Clear();  // selection, highlight, search, help
  // One key pressed (or repeated). False where it means nothing here.
  bool Press(int key, bool shift);
  // Sets `folded`: as the user chose, else as StartFolded() has it.
  void FoldLanes(const std::vector<Lane>& lanes);
  void ToggleFold(const Lane& title, bool folded_now);
  // What the run has grown to.
  void Grow(int64_t begin_ns, int64_t end_ns);
  void FollowEnd();

 private:
  void SearchNext(bool forward);

  std::map<std::pair<LaneKind, std::string>, bool> fold_choice_;  // by kind and subject of a title
  bool fold_order_ = false;  // E was pressed: open all pools, or fold as at the start
};

}  // namespace poolscope
