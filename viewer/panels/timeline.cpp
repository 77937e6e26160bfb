#include <algorithm>
#include <cmath>

#include "viewer/opaque_pass.h"
#include "viewer/panels/lane_drawing.h"
#include "viewer/panels/timeline_parts.h"

namespace poolscope {
namespace {

constexpr ImGuiWindowFlags kFixed =
    ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
    ImGuiWindowFlags_NoBringToFrontOnFocus | ImGuiWindowFlags_NoScrollWithMouse |
    ImGuiWindowFlags_NoBackground;

void Reveal(TimelineFrame& frame) {
  View& view = frame.view;
  for (size_t i = 0; i < frame.lanes.size(); ++i) {
    if (!IsTitle(frame.lanes[i].kind) || frame.lanes[i].subject != *view.reveal) continue;
    const float top = frame.context.boxes[i].top;
    const bool in_sight =
        top >= view.scroll && top + frame.area.height * 0.3f <= view.scroll + frame.area.height;
    if (!in_sight) view.scroll = top - 20 * frame.scale();
  }
  view.reveal.reset();
}

void Layout(TimelineFrame& frame) {
  LaneStyle style;
  for (float* size : {&style.title, &style.states, &style.row, &style.gap, &style.curve,
                      &style.counter, &style.group_gap, &style.folded, &style.least_states}) {
    *size = std::floor(*size * frame.scale());
  }
  for (size_t i = 0; i < frame.lanes.size(); ++i) {
    if (const LanePicture* picture = frame.Picture(i)) {
      frame.lanes[i].rows = std::max(frame.lanes[i].rows, picture->rows);
    }
  }
  View& view = frame.view;
  view.FoldLanes(frame.lanes);
  frame.context.boxes = StackLanes(frame.lanes, view.folded, style);
  view.lanes_height = StackHeight(frame.context.boxes) + 12 * frame.scale();
  view.sight_height = frame.area.height;
  view.axis.Resize(frame.area.width);
  if (view.reveal && !frame.lanes.empty()) Reveal(frame);
  view.Scroll(0);
}

void PaintPicture(TimelineFrame& frame, size_t i) {
  const LanePicture* picture = frame.Picture(i);
  if (picture == nullptr) return;
  const Lane& lane = frame.lanes[i];
  LaneCanvas canvas;
  canvas.list = frame.list;
  canvas.plain = &frame.plain;
  canvas.context = &frame.context;
  canvas.view = &frame.view;
  canvas.x = frame.area.x;
  canvas.top = frame.Top(i);
  canvas.width = frame.area.width;
  canvas.height = frame.context.boxes[i].height;
  canvas.lane = static_cast<int>(i);
  if (frame.area.Contains(frame.mouse.x, frame.mouse.y) && !ImGui::IsMouseDragging(0, 4)) {
    canvas.mouse_x = frame.mouse.x;
    canvas.mouse_y = frame.mouse.y;
  }
  switch (lane.kind) {
    case LaneKind::kStates:
      DrawStates(canvas, *picture);
      break;
    case LaneKind::kRanges:
    case LaneKind::kWire:
      DrawBars(canvas, lane, *picture);
      break;
    case LaneKind::kDepth:
    case LaneKind::kBandwidth:
    case LaneKind::kLag:
    case LaneKind::kCounter: {
      const LinkRow* link = frame.catalog().FindLink(lane.subject);
      const bool depth = lane.kind == LaneKind::kDepth && link != nullptr;
      DrawCurve(canvas, lane, *picture, depth ? static_cast<double>(link->capacity) : 0);
      break;
    }
    case LaneKind::kPool:
    case LaneKind::kLink:
    case LaneKind::kOther:
    case LaneKind::kCounters:
      break;
  }
}

void PaintLanes(TimelineFrame& frame) {
  PanelContext& context = frame.context;
  context.lanes_in_sight.clear();
  context.events_in_sight = 0;
  context.hovered.reset();
  context.hovered_title = -1;
  const std::vector<float> steps = StepLines(frame);
  for (size_t i = 0; i < frame.lanes.size(); ++i) {
    const LaneBox& box = context.boxes[i];
    const float top = frame.Top(i);
    if (box.height <= 0 || top + box.height < frame.area.y ||
        top > frame.area.y + frame.area.height) {
      continue;
    }
    context.lanes_in_sight.push_back(static_cast<int>(i));
    if (IsTitle(frame.lanes[i].kind)) {
      PaintTitle(frame, i);
    } else {
      PaintLabel(frame, i);
      frame.plain.Add(frame.area.x, top, frame.area.x + frame.area.width, top + box.height,
                      colour::kLane);
      for (const float x : steps) {
        frame.plain.Add(x, top, x + 1, top + box.height, Mix(colour::kLane, colour::kLine, 0.7f));
      }
      PaintPicture(frame, i);
    }
  }
}

void PaintScrollbar(TimelineFrame& frame) {
  const PanelRect& area = frame.area;
  if (frame.view.lanes_height <= area.height) return;
  const float width = 6 * frame.scale();
  const float length =
      std::max(24 * frame.scale(), area.height * area.height / frame.view.lanes_height);
  const float share = frame.view.scroll / (frame.view.lanes_height - area.height);
  const float y = area.y + (area.height - length) * share;
  const float x = area.x + area.width - width - 2;
  frame.list->AddRectFilled(ImVec2(x, y), ImVec2(x + width, y + length),
                            WithAlpha(colour::kText, 0.35f), width / 2);
}

void Paint(PanelContext& context, View& view, const PanelRect& rect) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float gutter = std::floor(176 * context.scale());
  const float axis = std::floor(40 * context.scale());
  context.timeline = {rect.x + gutter, rect.y + axis, rect.width - gutter, rect.height - axis};
  RectBatch plain(list);
  TimelineFrame frame{context,
                      view,
                      rect,
                      context.timeline,
                      list,
                      plain,
                      context.answer->catalog->lanes,
                      ImGui::GetIO().MousePos};
  Layout(frame);
  list->PushClipRect(ImVec2(rect.x, context.timeline.y), frame.AreaCorner(), true);
  // Channel 0: plain rectangles, without blending. Channel 1: text and all else, above them.
  list->ChannelsSplit(2);
  list->ChannelsSetCurrent(0);
  opaque_pass::Begin(list);
  list->ChannelsSetCurrent(1);
  PaintLanes(frame);
  plain.Flush();
  list->ChannelsSetCurrent(0);
  opaque_pass::End(list);
  list->ChannelsMerge();
  list->PopClipRect();
  list->PushClipRect(ImVec2(context.timeline.x, context.timeline.y), frame.AreaCorner(), true);
  PaintLosses(frame);
  PaintMessage(frame);
  list->PopClipRect();
  list->PushClipRect(ImVec2(rect.x, context.timeline.y), frame.AreaCorner(), true);
  PaintHighlight(frame);
  list->PopClipRect();
  PaintAxis(frame);
  PaintScrollbar(frame);
  if (frame.lanes.empty()) {
    Text(list, frame.fonts().text, frame.area.x + 24 * frame.scale(),
         frame.area.y + 24 * frame.scale(), colour::kDim,
         context.live ? "No events yet: the run has just begun." : "This run has no events.");
  }
}

}  // namespace

void DrawTimeline(PanelContext& context, View& view, const PanelRect& rect) {
  ImGui::SetNextWindowPos(ImVec2(rect.x, rect.y));
  ImGui::SetNextWindowSize(ImVec2(rect.width, rect.height));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(0, 0));
  if (ImGui::Begin("timeline", nullptr, kFixed)) Paint(context, view, rect);
  ImGui::End();
  ImGui::PopStyleVar();
}

}  // namespace poolscope
