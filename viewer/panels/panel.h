#pragma once

#include <imgui.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "advisor/report.h"
#include "viewer/gui.h"
#include "viewer/model.h"
#include "viewer/view.h"

namespace poolscope {

struct PanelRect {
  float x = 0, y = 0, width = 0, height = 0;
  bool Contains(float px, float py) const {
    return px >= x && px < x + width && py >= y && py < y + height;
  }
};

// What every panel draws from, and what it leaves for the next frame. One per window.
struct PanelContext {
  // Set before each frame.
  Gui* gui = nullptr;
  std::shared_ptr<const ViewAnswer> answer;
  std::shared_ptr<const Report> report;
  std::string report_error;
  std::optional<EventDetails> details;
  bool live = false;
  bool busy = false;

  // Where things were drawn, for the mouse and for tests.
  PanelRect timeline;  // the lanes, without labels and axis
  std::vector<LaneBox> boxes;
  std::vector<int> lanes_in_sight;
  uint64_t events_in_sight = 0;
  std::vector<PanelRect> finding_rects;
  std::vector<std::string> verdict;  // its lines
  std::vector<PanelRect> overlays;   // windows over the timeline
  std::optional<EventKey> hovered;   // the range under the cursor
  int hovered_title = -1;            // title lane under the cursor

  float scale() const { return gui->scale(); }
  std::string Name(uint32_t id) const;
  // The name as there is room for it, and whether that is not all of it.
  std::string Label(uint32_t id, const std::string& name) const;
  bool IsSymbol(uint32_t id) const;
  size_t LinkIndex(const std::string& link) const;
};

// Across the window's top, as high as its text needs; returns the height.
float DrawVerdict(PanelContext& context, float width);
void DrawTimeline(PanelContext& context, View& view, const PanelRect& rect);
void DrawLegend(PanelContext& context, const PanelRect& rect);
void DrawOverview(PanelContext& context, View& view);
void DrawFindings(PanelContext& context, View& view);
void DrawDetails(PanelContext& context, View& view);
void DrawStatistics(PanelContext& context, View& view);
void DrawHelp(PanelContext& context, View& view);
void DrawSearch(PanelContext& context, View& view, const PanelRect& timeline);

// Goes to a finding's evidence and highlights it.
void GoToFinding(View& view, const Report& report, int index, size_t evidence);

}  // namespace poolscope
