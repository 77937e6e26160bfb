#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viewer/format.h"
#include "viewer/panels/timeline_parts.h"

namespace poolscope {
namespace {

void PaintStepLabels(TimelineFrame& frame, float top) {
  const std::vector<StepRow>& steps = frame.context.answer->steps;
  if (steps.empty()) return;
  const float room = 46 * frame.scale();
  int64_t stride = 1;
  if (steps.size() > 1) {
    const double apart = (frame.view.axis.ToPixel(steps.back().end_ns) -
                          frame.view.axis.ToPixel(steps.front().end_ns)) /
                         static_cast<double>(steps.size() - 1);
    for (const int64_t candidate : {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}) {
      stride = candidate;
      if (apart * static_cast<double>(candidate) >= room) break;
    }
  }
  float free_from = frame.area.x;
  for (const StepRow& step : steps) {
    const float x = frame.area.x + static_cast<float>(frame.view.axis.ToPixel(step.end_ns));
    if (step.step % stride != 0 || x < free_from || x > frame.area.x + frame.area.width) continue;
    const std::string label = fmt::format("{}", step.step);
    frame.list->AddLine(ImVec2(x, top + 3 * frame.scale()), ImVec2(x, frame.area.y), colour::kDim);
    Text(frame.list, frame.fonts().small, x + 3 * frame.scale(), top + 2 * frame.scale(),
         colour::kDim, label);
    free_from = x + TextWidth(frame.fonts().small, label) + 12 * frame.scale();
  }
}

void PaintCursor(TimelineFrame& frame) {
  if (!frame.area.Contains(frame.mouse.x, frame.mouse.y)) return;
  const double since = static_cast<double>(frame.view.axis.ToTime(frame.mouse.x - frame.area.x) -
                                           frame.view.run_begin_ns);
  const std::string label = fmt::format("{:.{}f} s", since / 1e9,
                                        frame.view.axis.ns_per_px() < 1e3   ? 9
                                        : frame.view.axis.ns_per_px() < 1e6 ? 6
                                                                            : 3);
  const float width = TextWidth(frame.fonts().small, label) + 10 * frame.scale();
  const float x =
      std::clamp(frame.mouse.x - width / 2, frame.area.x, frame.area.x + frame.area.width - width);
  frame.list->AddRectFilled(ImVec2(x, frame.rect.y + 1),
                            ImVec2(x + width, frame.rect.y + 19 * frame.scale()), colour::kAccent,
                            3 * frame.scale());
  Text(frame.list, frame.fonts().small, x + 5 * frame.scale(), frame.rect.y + 3 * frame.scale(),
       Rgb(0x0c0e11), label);
}

}  // namespace

void PaintAxis(TimelineFrame& frame) {
  const float bottom = frame.area.y;
  frame.list->AddLine(ImVec2(frame.rect.x, bottom), ImVec2(frame.rect.x + frame.rect.width, bottom),
                      colour::kLine);
  const AxisTicks ticks = TicksOf(frame.view.axis, frame.view.run_begin_ns, 110 * frame.scale());
  const float line = frame.rect.y + 22 * frame.scale();
  frame.list->PushClipRect(ImVec2(frame.area.x, frame.rect.y),
                           ImVec2(frame.area.x + frame.area.width, bottom), true);
  for (const Tick& tick : ticks.ticks) {
    const float x = frame.area.x + static_cast<float>(frame.view.axis.ToPixel(tick.time_ns));
    frame.list->AddLine(ImVec2(x, frame.rect.y + 16 * frame.scale()), ImVec2(x, line),
                        colour::kDim);
    const float width = TextWidth(frame.fonts().small, tick.label);
    const float left =
        std::clamp(x - width / 2, frame.area.x + 2, frame.area.x + frame.area.width - width - 4);
    Text(frame.list, frame.fonts().small, left, frame.rect.y + 3 * frame.scale(), colour::kText,
         tick.label);
  }
  frame.list->AddLine(ImVec2(frame.area.x, line), ImVec2(frame.area.x + frame.area.width, line),
                      colour::kLine);
  PaintStepLabels(frame, line);
  PaintCursor(frame);
  frame.list->PopClipRect();
  const float x = frame.rect.x + 14 * frame.scale();
  Text(frame.list, frame.fonts().small, x, frame.rect.y + 3 * frame.scale(), colour::kDim,
       ticks.base.empty() ? "time since start" : ticks.base + " +");
  Text(frame.list, frame.fonts().small, x, line + 2 * frame.scale(), colour::kDim, "steps");
}

std::vector<float> StepLines(const TimelineFrame& frame) {
  std::vector<float> lines;
  const std::vector<StepRow>& steps = frame.context.answer->steps;
  if (steps.size() < 2) return lines;
  const double apart = (frame.view.axis.ToPixel(steps.back().end_ns) -
                        frame.view.axis.ToPixel(steps.front().end_ns)) /
                       static_cast<double>(steps.size() - 1);
  if (apart < 6) return lines;
  for (const StepRow& step : steps) {
    const float x = frame.At(step.end_ns);
    if (x >= frame.area.x && x < frame.area.x + frame.area.width) lines.push_back(std::floor(x));
  }
  return lines;
}

}  // namespace poolscope
