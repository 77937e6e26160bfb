#pragma once

#include "viewer/panels/batch.h"
#include "viewer/panels/panel.h"

namespace poolscope {

// Draws the picture of one lane into [x, x + width] x [top, top + height] of the window.
struct LaneCanvas {
  ImDrawList* list = nullptr;
  RectBatch* plain = nullptr;
  PanelContext* context = nullptr;
  const View* view = nullptr;
  float x = 0, top = 0, width = 0, height = 0;
  float mouse_x = -1, mouse_y = -1;  // outside: negative
  int lane = -1;

  float At(int64_t time_ns) const;  // clamped to the canvas
  bool Hit(float x0, float x1, float y0, float y1) const;
};

void DrawStates(const LaneCanvas& canvas, const LanePicture& picture);
void DrawBars(const LaneCanvas& canvas, const Lane& lane, const LanePicture& picture);
void DrawCurve(const LaneCanvas& canvas, const Lane& lane, const LanePicture& picture,
               double capacity);

}  // namespace poolscope
