#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viewer/format.h"
#include "viewer/panels/timeline_parts.h"

namespace poolscope {
namespace {

// What the report says of the pool or link, beside its title.
std::string Summary(const TimelineFrame& frame, const Lane& lane) {
  if (!frame.context.report) return {};
  if (lane.kind == LaneKind::kPool) {
    for (const PoolReport& pool : frame.context.report->pools) {
      if (pool.name != lane.subject) continue;
      std::string text = fmt::format("busy {}", FormatPercent(pool.busy_ratio));
      std::vector<std::pair<double, std::string>> states;
      for (size_t i = 0; i < static_cast<size_t>(State::kCount); ++i) {
        const auto state = static_cast<State>(i);
        const auto ratio = pool.state_ratios.find(StateName(state));
        if (state == State::kBusy || ratio == pool.state_ratios.end()) continue;
        if (ratio->second >= 0.02) states.emplace_back(ratio->second, StateLabel(state));
      }
      std::sort(states.rbegin(), states.rend());
      for (const auto& [ratio, label] : states) {
        text += fmt::format("  \xc2\xb7  {} {}", label, FormatPercent(ratio));
      }
      return text;
    }
  }
  if (lane.kind == LaneKind::kLink) {
    for (const LinkReport& link : frame.context.report->links) {
      if (link.name != lane.subject) continue;
      if (link.transfers == 0) return "no transfer seen";
      return fmt::format(
          "traffic {}  \xc2\xb7  exposed {}  \xc2\xb7  {} a message  \xc2\xb7  {} on the wire",
          FormatPercent(link.traffic_share), FormatPercent(link.exposed_share),
          FormatDuration(link.transfer_seconds * 1e9),
          FormatBytes(static_cast<double>(link.wire_bytes)));
    }
  }
  return {};
}

}  // namespace

void PaintTitle(TimelineFrame& frame, size_t i) {
  const float top = frame.Top(i);
  const float height = frame.context.boxes[i].height;
  const Lane& lane = frame.lanes[i];
  const bool hovered = frame.mouse.x >= frame.rect.x &&
                       frame.mouse.x < frame.rect.x + frame.rect.width &&
                       frame.mouse.y >= std::max(top, frame.area.y) && frame.mouse.y < top + height;
  if (hovered) frame.context.hovered_title = static_cast<int>(i);
  const Colour background = hovered ? Mix(colour::kTitle, colour::kText, 0.08f) : colour::kTitle;
  frame.plain.Add(frame.rect.x, top, frame.rect.x + frame.rect.width, top + height, background);
  const bool link = lane.kind == LaneKind::kLink;
  const Colour tint = link ? LinkColour(frame.context.LinkIndex(lane.subject)) : colour::kText;
  frame.plain.Add(frame.rect.x, top, frame.rect.x + 3 * frame.scale(), top + height,
                  link                           ? tint
                  : lane.kind == LaneKind::kPool ? StateColour(State::kBusy)
                                                 : colour::kDim);
  const float text_y = top + (height - frame.fonts().bold->FontSize) / 2 - frame.scale();
  const float mid = top + height / 2;
  const float arrow = frame.rect.x + 15 * frame.scale();
  const float size = 4 * frame.scale();
  if (frame.view.folded[i]) {
    frame.list->AddTriangleFilled(ImVec2(arrow - size, mid - size), ImVec2(arrow + size, mid),
                                  ImVec2(arrow - size, mid + size), colour::kDim);
  } else {
    frame.list->AddTriangleFilled(ImVec2(arrow - size, mid - size * 0.7f),
                                  ImVec2(arrow + size, mid - size * 0.7f),
                                  ImVec2(arrow, mid + size * 0.9f), colour::kDim);
  }
  float x = frame.rect.x + 26 * frame.scale();
  Text(frame.list, frame.fonts().bold, x, text_y, tint, lane.label);
  x = std::max(frame.area.x + 6 * frame.scale(),
               x + TextWidth(frame.fonts().bold, lane.label) + 14 * frame.scale());
  Text(frame.list, frame.fonts().text, x, text_y, colour::kDim, lane.detail);
  x += TextWidth(frame.fonts().text, lane.detail) + 18 * frame.scale();
  const std::string summary = Summary(frame, lane);
  Text(frame.list, frame.fonts().text, x, text_y, colour::kText,
       FitText(frame.fonts().text, summary,
               frame.rect.x + frame.rect.width - x - 14 * frame.scale()));
}

void PaintLabel(TimelineFrame& frame, size_t i) {
  const float top = frame.Top(i);
  const float height = frame.context.boxes[i].height;
  const Lane& lane = frame.lanes[i];
  const bool main = lane.kind == LaneKind::kStates;
  ImFont* font = main ? frame.fonts().text : frame.fonts().small;
  const float x = frame.rect.x + 14 * frame.scale();
  const float room = frame.area.x - x - 8 * frame.scale();
  const bool curve = lane.kind == LaneKind::kDepth || lane.kind == LaneKind::kBandwidth ||
                     lane.kind == LaneKind::kLag || lane.kind == LaneKind::kCounter;
  if (curve) {
    Text(frame.list, font, x, top + 3 * frame.scale(), colour::kText,
         FitText(font, lane.label, room));
    const bool own_detail = lane.kind == LaneKind::kDepth || lane.kind == LaneKind::kCounter;
    std::string detail = own_detail ? lane.detail : std::string();
    if (const LanePicture* picture = frame.Picture(i); picture && !picture->samples.empty()) {
      double high = 0;
      for (const Sample& sample : picture->samples) high = std::max(high, sample.high);
      if (lane.kind == LaneKind::kBandwidth) detail = "max " + FormatBytes(high) + "/s";
      if (lane.kind == LaneKind::kDepth) {
        detail = fmt::format("max {}{}{}", FormatCount(high), detail.empty() ? "" : " ", detail);
      }
      if (lane.kind == LaneKind::kCounter) {
        detail += ", max " + FormatCounter(lane.counter, picture->max_value);
      }
      if (lane.kind == LaneKind::kLag) {
        detail = fmt::format("max {} update{}", FormatCount(high), high == 1 ? "" : "s");
      }
    }
    Text(frame.list, font, x, top + 4 * frame.scale() + font->FontSize * 1.25f, colour::kDim,
         FitText(font, detail, room));
    return;
  }
  if (main && height < font->FontSize) {  // bands of a folded pool: one label for all
    if (i == 0 || !IsTitle(frame.lanes[i - 1].kind)) return;
    const size_t workers = WorkersBelow(frame.lanes, i - 1);
    Text(frame.list, font, x, top, colour::kText,
         FitText(font, fmt::format("{} workers", workers), room));
    Text(frame.list, frame.fonts().small, x, top + font->FontSize * 1.25f, colour::kDim,
         FitText(frame.fonts().small, "a click on the title opens", room));
    return;
  }
  const std::string label = lane.label.empty() ? lane.detail : lane.label;
  const Colour colour = main || lane.kind == LaneKind::kWire ? colour::kText : colour::kDim;
  const float row = std::min(height, 17 * frame.scale());
  Text(frame.list, font, x, top + (row - font->FontSize) / 2 - frame.scale(), colour,
       FitText(font, label, room));
}

}  // namespace poolscope
