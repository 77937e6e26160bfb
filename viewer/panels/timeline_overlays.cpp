#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viewer/format.h"
#include "viewer/panels/timeline_parts.h"

namespace poolscope {
namespace {

// Losses of one thread shade its lanes, others all lanes.
bool Concerns(const TimelineFrame& frame, const EventLossRow& loss, const Lane& lane) {
  if (loss.place.rfind("thread ", 0) != 0) return true;
  const int64_t tid = std::atoll(loss.place.c_str() + 7);
  for (const TrackRow& track : frame.catalog().tracks) {
    if (std::find(lane.tracks.begin(), lane.tracks.end(), track.track_id) == lane.tracks.end()) {
      continue;
    }
    for (const ThreadRow& thread : frame.catalog().threads) {
      if (thread.thread_id == track.thread_id && thread.tid == tid &&
          thread.session_id == loss.session_id) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

void PaintLosses(TimelineFrame& frame) {
  for (const EventLossRow& loss : frame.catalog().losses) {
    const double from = frame.view.axis.ToPixel(loss.first_ns);
    const double to = frame.view.axis.ToPixel(loss.last_ns);
    if (to < 0 || from > frame.area.width) continue;
    const float x0 = frame.area.x + static_cast<float>(std::max(from, 0.0));
    const float x1 =
        std::max(x0 + 4 * frame.scale(),
                 frame.area.x + static_cast<float>(std::min<double>(to, frame.area.width)));
    for (const int index : frame.context.lanes_in_sight) {
      const Lane& lane = frame.lanes[static_cast<size_t>(index)];
      if (IsTitle(lane.kind) || !Concerns(frame, loss, lane)) continue;
      const LaneBox& box = frame.context.boxes[static_cast<size_t>(index)];
      const float top = frame.area.y + box.top - std::floor(frame.view.scroll);
      frame.list->AddRectFilled(ImVec2(x0, top), ImVec2(x1, top + box.height),
                                WithAlpha(Rgb(0x000000), 0.35f));
      Hatch(frame.list, x0, top, x1, top + box.height, 6 * frame.scale(),
            WithAlpha(Rgb(0xffffff), 0.35f));
    }
    if (ImGui::IsMouseHoveringRect(ImVec2(x0, frame.area.y),
                                   ImVec2(x1, frame.area.y + frame.area.height)) &&
        !frame.context.hovered) {
      ImGui::BeginTooltip();
      ImGui::Text("event loss: %s", loss.cause.c_str());
      ImGui::TextDisabled("%s, %s", loss.place.c_str(),
                          loss.events ? (FormatCount(static_cast<double>(*loss.events)) +
                                         " events are missing here")
                                            .c_str()
                                      : "an unknown number of events is missing here");
      ImGui::EndTooltip();
    }
  }
}

void PaintHighlight(TimelineFrame& frame) {
  if (!frame.view.highlight) return;
  const float x0 = frame.area.x + static_cast<float>(std::clamp<double>(
                                      frame.view.axis.ToPixel(frame.view.highlight->begin_ns), -2,
                                      frame.area.width));
  const float x1 = frame.area.x + static_cast<float>(std::clamp<double>(
                                      frame.view.axis.ToPixel(frame.view.highlight->end_ns), 0,
                                      frame.area.width + 2.0));
  for (size_t i = 0; i < frame.lanes.size(); ++i) {
    const LaneBox& box = frame.context.boxes[i];
    if (box.height <= 0 || frame.lanes[i].subject != frame.view.highlight->subject) continue;
    const float top = frame.area.y + box.top - std::floor(frame.view.scroll);
    frame.list->AddRectFilled(ImVec2(frame.rect.x, top), ImVec2(x1, top + box.height),
                              WithAlpha(colour::kText, 0.07f));
  }
  for (const float x : {x0, x1}) {
    frame.list->AddLine(ImVec2(x, frame.area.y), ImVec2(x, frame.area.y + frame.area.height),
                        colour::kAccent, 2 * frame.scale());
  }
  // What lies outside of the evidence steps back.
  const Colour shade = WithAlpha(colour::kBackground, 0.45f);
  frame.list->AddRectFilled(ImVec2(frame.area.x, frame.area.y),
                            ImVec2(x0, frame.area.y + frame.area.height), shade);
  frame.list->AddRectFilled(ImVec2(x1, frame.area.y), frame.AreaCorner(), shade);
}

// The way of the selected message: from its sender, an arrow from each stage to the next. Of what a
// device did: an arrow from its launch.
void PaintMessage(TimelineFrame& frame) {
  if (!frame.context.details || !frame.view.selected) return;
  const EventDetails& details = *frame.context.details;
  const float scale = frame.scale();
  const auto shown = [&](int lane) {
    return lane >= 0 && static_cast<size_t>(lane) < frame.lanes.size() &&
           frame.context.boxes[static_cast<size_t>(lane)].height > 0;
  };
  const auto point = [&](int lane, int64_t time_ns) {
    return ImVec2(frame.At(time_ns), frame.Top(static_cast<size_t>(lane)) + 8 * scale);
  };
  const auto arrow = [&](const ImVec2& from, const ImVec2& to) {
    const float bend = std::max(12 * scale, std::fabs(to.x - from.x) * 0.4f);
    frame.list->AddBezierCubic(from, ImVec2(from.x + bend, from.y), ImVec2(to.x - bend, to.y), to,
                               colour::kSelection, 1.5f * scale, 24);
    frame.list->AddTriangleFilled(ImVec2(to.x + 1, to.y),
                                  ImVec2(to.x - 7 * scale, to.y - 4 * scale),
                                  ImVec2(to.x - 7 * scale, to.y + 4 * scale), colour::kSelection);
  };
  if (details.launch && shown(details.launch->lane) && shown(frame.view.selected->lane)) {
    const ImVec2 from = point(details.launch->lane, details.launch->at_ns);
    frame.list->AddCircleFilled(from, 3 * scale, colour::kSelection);
    arrow(from, point(frame.view.selected->lane, details.begin_ns));
  }
  std::optional<ImVec2> from;
  if (!details.stages.empty() && shown(details.sender_lane)) {
    from = point(details.sender_lane, details.stages.front().begin_ns);
  }
  for (const MessageStage& stage : details.stages) {
    if (!shown(stage.lane)) continue;
    const ImVec2 to = point(stage.lane, stage.begin_ns);
    if (from && (std::fabs(from->y - to.y) > 2 || to.x - from->x > 3)) arrow(*from, to);
    from = point(stage.lane, stage.end_ns);
  }
  if (from && shown(details.receiver_lane)) {
    ImVec2 to = point(details.receiver_lane, details.stages.back().end_ns);
    to.x += 10 * scale;  // an arrow's length: when it was taken is not known
    arrow(*from, to);
  }
}

}  // namespace poolscope
