#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "viewer/panels/batch.h"
#include "viewer/panels/panel.h"

namespace poolscope {

// What the parts of the timeline share while one frame is drawn.
struct TimelineFrame {
  PanelContext& context;
  View& view;
  PanelRect rect;  // with labels and axis
  PanelRect area;  // the lanes alone
  ImDrawList* list;
  RectBatch& plain;         // opaque rectangles, drawn below everything else
  std::vector<Lane> lanes;  // of the catalog, with the rows that their pictures need
  ImVec2 mouse;

  const Catalog& catalog() const { return *context.answer->catalog; }
  const Fonts& fonts() const { return context.gui->fonts(); }
  float scale() const { return context.scale(); }
  ImVec2 AreaCorner() const { return ImVec2(area.x + area.width, area.y + area.height); }
  float Top(size_t lane) const {
    return area.y + context.boxes[lane].top - std::floor(view.scroll);
  }
  // Unclamped position of a time in the window.
  float At(int64_t time_ns) const {
    return area.x + static_cast<float>(std::clamp(view.axis.ToPixel(time_ns), -1e5, 1e5));
  }
  const LanePicture* Picture(size_t lane) const {
    return lane < context.answer->lanes.size() ? context.answer->lanes[lane].get() : nullptr;
  }
};

void PaintAxis(TimelineFrame& frame);
// Where steps end, in pixels of the window; empty where they are too close to tell apart.
std::vector<float> StepLines(const TimelineFrame& frame);
void PaintTitle(TimelineFrame& frame, size_t lane);
void PaintLabel(TimelineFrame& frame, size_t lane);
void PaintLosses(TimelineFrame& frame);
void PaintHighlight(TimelineFrame& frame);
void PaintMessage(TimelineFrame& frame);

}  // namespace poolscope
