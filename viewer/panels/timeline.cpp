#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viewer/format.h"
#include "viewer/panels/batch.h"
#include "viewer/panels/lane_drawing.h"

namespace poolscope {
namespace {

constexpr ImGuiWindowFlags kFixed =
    ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
    ImGuiWindowFlags_NoBringToFrontOnFocus | ImGuiWindowFlags_NoScrollWithMouse;

class TimelinePainter {
 public:
  TimelinePainter(PanelContext& context, View& view, const PanelRect& rect)
      : context_(context),
        view_(view),
        rect_(rect),
        catalog_(*context.answer->catalog),
        scale_(context.scale()),
        fonts_(context.gui->fonts()),
        list_(ImGui::GetWindowDrawList()) {
    const float gutter = std::floor(176 * scale_);
    const float axis = std::floor(40 * scale_);
    context.timeline = {rect.x + gutter, rect.y + axis, rect.width - gutter, rect.height - axis};
    area_ = context.timeline;
    mouse_ = ImGui::GetIO().MousePos;
  }

  void Paint() {
    Layout();
    list_->PushClipRect(ImVec2(area_.x, area_.y), Corner(area_), true);
    PaintStepLines();
    list_->PopClipRect();
    PaintLanes();
    list_->PushClipRect(ImVec2(area_.x, area_.y), Corner(area_), true);
    PaintLosses();
    PaintHighlight();
    PaintMessage();
    list_->PopClipRect();
    PaintAxis();
    PaintScrollbar();
    if (catalog_.lanes.empty()) {
      Text(list_, fonts_.text, area_.x + 24 * scale_, area_.y + 24 * scale_, colour::kDim,
           context_.live ? "No events yet: the run has just begun." : "This run has no events.");
    }
  }

 private:
  static ImVec2 Corner(const PanelRect& rect) {
    return ImVec2(rect.x + rect.width, rect.y + rect.height);
  }

  void Layout() {
    LaneStyle style;
    for (float* size :
         {&style.title, &style.states, &style.row, &style.gap, &style.curve, &style.group_gap}) {
      *size = std::floor(*size * scale_);
    }
    std::vector<Lane> lanes = catalog_.lanes;
    for (size_t i = 0; i < lanes.size(); ++i) {
      if (const auto& picture = Picture(i)) lanes[i].rows = std::max(lanes[i].rows, picture->rows);
    }
    view_.folded.resize(lanes.size(), false);
    context_.boxes = StackLanes(lanes, view_.folded, style);
    lanes_ = std::move(lanes);
    view_.lanes_height = StackHeight(context_.boxes) + 12 * scale_;
    view_.sight_height = area_.height;
    view_.axis.Resize(area_.width);
    if (view_.reveal) Reveal();
    view_.Scroll(0);
  }

  const std::shared_ptr<const LanePicture>& Picture(size_t lane) const {
    static const std::shared_ptr<const LanePicture> kNone;
    return lane < context_.answer->lanes.size() ? context_.answer->lanes[lane] : kNone;
  }

  void Reveal() {
    for (size_t i = 0; i < lanes_.size(); ++i) {
      if (!IsTitle(lanes_[i].kind) || lanes_[i].subject != *view_.reveal) continue;
      const float top = context_.boxes[i].top;
      if (top < view_.scroll || top + area_.height * 0.5f > view_.scroll + area_.height) {
        view_.scroll = top - 20 * scale_;
      }
    }
    view_.reveal.reset();
  }

  void PaintLanes() {
    context_.lanes_in_sight.clear();
    context_.events_in_sight = 0;
    context_.hovered.reset();
    context_.hovered_title = -1;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      const LaneBox& box = context_.boxes[i];
      const float top = area_.y + box.top - std::floor(view_.scroll);
      if (box.height <= 0 || top + box.height < area_.y || top > area_.y + area_.height) continue;
      context_.lanes_in_sight.push_back(static_cast<int>(i));
      list_->PushClipRect(ImVec2(rect_.x, area_.y), Corner(rect_), true);
      if (IsTitle(lanes_[i].kind)) {
        PaintTitle(i, top, box.height);
      } else {
        PaintLabel(i, top, box.height);
        list_->AddRectFilled(ImVec2(area_.x, top), ImVec2(area_.x + area_.width, top + box.height),
                             WithAlpha(colour::kLane, 0.75f));
      }
      list_->PopClipRect();
      if (!IsTitle(lanes_[i].kind)) PaintPicture(i, top, box.height);
    }
  }

  void PaintTitle(size_t i, float top, float height) {
    const Lane& lane = lanes_[i];
    const bool hovered = mouse_.x >= rect_.x && mouse_.x < rect_.x + rect_.width &&
                         mouse_.y >= std::max(top, area_.y) && mouse_.y < top + height;
    if (hovered) context_.hovered_title = static_cast<int>(i);
    const Colour background = hovered ? Mix(colour::kTitle, colour::kText, 0.08f) : colour::kTitle;
    list_->AddRectFilled(ImVec2(rect_.x, top), ImVec2(rect_.x + rect_.width, top + height),
                         background);
    const bool link = lane.kind == LaneKind::kLink;
    const Colour tint = link ? LinkColour(context_.LinkIndex(lane.subject)) : colour::kText;
    list_->AddRectFilled(ImVec2(rect_.x, top), ImVec2(rect_.x + 3 * scale_, top + height),
                         link ? tint : StateColour(State::kBusy));
    const float text_y = top + (height - fonts_.bold->FontSize) / 2 - scale_;
    const float mid = top + height / 2;
    const float arrow = rect_.x + 15 * scale_;
    const float size = 4 * scale_;
    if (view_.folded[i]) {
      list_->AddTriangleFilled(ImVec2(arrow - size, mid - size), ImVec2(arrow + size, mid),
                               ImVec2(arrow - size, mid + size), colour::kDim);
    } else {
      list_->AddTriangleFilled(ImVec2(arrow - size, mid - size * 0.7f),
                               ImVec2(arrow + size, mid - size * 0.7f),
                               ImVec2(arrow, mid + size * 0.9f), colour::kDim);
    }
    float x = rect_.x + 26 * scale_;
    Text(list_, fonts_.bold, x, text_y, tint, lane.label);
    x = std::max(area_.x + 6 * scale_, x + TextWidth(fonts_.bold, lane.label) + 14 * scale_);
    Text(list_, fonts_.text, x, text_y, colour::kDim, lane.detail);
    x += TextWidth(fonts_.text, lane.detail) + 18 * scale_;
    const std::string summary = Summary(lane);
    Text(list_, fonts_.text, x, text_y, colour::kText,
         FitText(fonts_.text, summary, rect_.x + rect_.width - x - 14 * scale_));
  }

  // What the report says of the pool or link, beside its title.
  std::string Summary(const Lane& lane) const {
    if (!context_.report) return {};
    if (lane.kind == LaneKind::kPool) {
      for (const PoolReport& pool : context_.report->pools) {
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
      for (const LinkReport& link : context_.report->links) {
        if (link.name != lane.subject) continue;
        return fmt::format(
            "traffic {}  \xc2\xb7  exposed {}  \xc2\xb7  {} a message  \xc2\xb7  {} on the wire",
            FormatPercent(link.traffic_share), FormatPercent(link.exposed_share),
            FormatDuration(link.transfer_seconds * 1e9),
            FormatBytes(static_cast<double>(link.wire_bytes)));
      }
    }
    return {};
  }

  void PaintLabel(size_t i, float top, float height) {
    const Lane& lane = lanes_[i];
    const bool main = lane.kind == LaneKind::kStates;
    ImFont* font = main ? fonts_.text : fonts_.small;
    const float x = rect_.x + 14 * scale_;
    const float room = area_.x - x - 8 * scale_;
    const bool curve = lane.kind == LaneKind::kDepth || lane.kind == LaneKind::kBandwidth ||
                       lane.kind == LaneKind::kLag;
    if (curve) {
      Text(list_, font, x, top + 3 * scale_, colour::kText, lane.label);
      std::string detail = lane.kind == LaneKind::kDepth ? lane.detail : std::string();
      if (const auto& picture = Picture(i); picture && !picture->samples.empty()) {
        double high = 0;
        for (const Sample& sample : picture->samples) high = std::max(high, sample.high);
        if (lane.kind == LaneKind::kBandwidth) detail = "max " + FormatBytes(high) + "/s";
        if (lane.kind == LaneKind::kDepth) {
          detail = fmt::format("max {}{}{}", FormatCount(high), detail.empty() ? "" : " ", detail);
        }
        if (lane.kind == LaneKind::kLag) {
          detail = fmt::format("max {} update{}", FormatCount(high), high == 1 ? "" : "s");
        }
      }
      Text(list_, font, x, top + 4 * scale_ + font->FontSize * 1.25f, colour::kDim,
           FitText(font, detail, room));
      return;
    }
    const std::string label = lane.label.empty() ? lane.detail : lane.label;
    const Colour colour = main || lane.kind == LaneKind::kWire ? colour::kText : colour::kDim;
    const float row = std::min(height, 17 * scale_);
    Text(list_, font, x, top + (row - font->FontSize) / 2 - scale_, colour,
         FitText(font, label, room));
  }

  void PaintPicture(size_t i, float top, float height) {
    const auto& picture = Picture(i);
    if (!picture) return;
    LaneCanvas canvas;
    canvas.list = list_;
    canvas.context = &context_;
    canvas.view = &view_;
    canvas.x = area_.x;
    canvas.top = top;
    canvas.width = area_.width;
    canvas.height = height;
    canvas.lane = static_cast<int>(i);
    if (area_.Contains(mouse_.x, mouse_.y) && !ImGui::IsMouseDragging(0, 4)) {
      canvas.mouse_x = mouse_.x;
      canvas.mouse_y = mouse_.y;
    }
    list_->PushClipRect(ImVec2(area_.x, area_.y), Corner(area_), true);
    switch (lanes_[i].kind) {
      case LaneKind::kStates:
        DrawStates(canvas, *picture);
        break;
      case LaneKind::kRanges:
      case LaneKind::kWire:
        DrawBars(canvas, lanes_[i], *picture);
        break;
      case LaneKind::kDepth:
      case LaneKind::kBandwidth:
      case LaneKind::kLag: {
        const LinkRow* link = catalog_.FindLink(lanes_[i].subject);
        const bool depth = lanes_[i].kind == LaneKind::kDepth;
        DrawCurve(canvas, lanes_[i], *picture,
                  depth && link != nullptr ? static_cast<double>(link->capacity) : 0);
        break;
      }
      default:
        break;
    }
    list_->PopClipRect();
  }

  void PaintStepLines() {
    const std::vector<StepRow>& steps = context_.answer->steps;
    if (steps.size() < 2) return;
    const double apart =
        view_.axis.span_ns() <= 0
            ? 0
            : (view_.axis.ToPixel(steps.back().end_ns) - view_.axis.ToPixel(steps.front().end_ns)) /
                  static_cast<double>(steps.size() - 1);
    if (apart < 6) return;
    for (const StepRow& step : steps) {
      const float x = area_.x + static_cast<float>(view_.axis.ToPixel(step.end_ns));
      if (x < area_.x || x > area_.x + area_.width) continue;
      list_->AddLine(ImVec2(x, area_.y), ImVec2(x, area_.y + area_.height),
                     WithAlpha(colour::kLine, 0.7f));
    }
  }

  void PaintAxis() {
    const float bottom = area_.y;
    list_->AddRectFilled(ImVec2(rect_.x, rect_.y), ImVec2(rect_.x + rect_.width, bottom),
                         colour::kPanel);
    list_->AddLine(ImVec2(rect_.x, bottom), ImVec2(rect_.x + rect_.width, bottom), colour::kLine);
    const AxisTicks ticks = TicksOf(view_.axis, view_.run_begin_ns, 110 * scale_);
    const float line = rect_.y + 22 * scale_;
    list_->PushClipRect(ImVec2(area_.x, rect_.y), ImVec2(area_.x + area_.width, bottom), true);
    for (const Tick& tick : ticks.ticks) {
      const float x = area_.x + static_cast<float>(view_.axis.ToPixel(tick.time_ns));
      list_->AddLine(ImVec2(x, rect_.y + 16 * scale_), ImVec2(x, line), colour::kDim);
      const float width = TextWidth(fonts_.small, tick.label);
      const float left = std::clamp(x - width / 2, area_.x + 2, area_.x + area_.width - width - 4);
      Text(list_, fonts_.small, left, rect_.y + 3 * scale_, colour::kText, tick.label);
    }
    list_->AddLine(ImVec2(area_.x, line), ImVec2(area_.x + area_.width, line), colour::kLine);
    PaintStepLabels(line);
    PaintCursor();
    list_->PopClipRect();
    const float x = rect_.x + 14 * scale_;
    Text(list_, fonts_.small, x, rect_.y + 3 * scale_, colour::kDim,
         ticks.base.empty() ? "time since start" : ticks.base + " +");
    Text(list_, fonts_.small, x, line + 2 * scale_, colour::kDim, "steps");
  }

  void PaintStepLabels(float top) {
    const std::vector<StepRow>& steps = context_.answer->steps;
    if (steps.empty()) return;
    const float room = 46 * scale_;
    int64_t stride = 1;
    if (steps.size() > 1) {
      const double apart =
          (view_.axis.ToPixel(steps.back().end_ns) - view_.axis.ToPixel(steps.front().end_ns)) /
          static_cast<double>(steps.size() - 1);
      for (const int64_t candidate : {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}) {
        stride = candidate;
        if (apart * static_cast<double>(candidate) >= room) break;
      }
    }
    float free_from = area_.x;
    for (const StepRow& step : steps) {
      const float x = area_.x + static_cast<float>(view_.axis.ToPixel(step.end_ns));
      if (step.step % stride != 0 || x < free_from || x > area_.x + area_.width) continue;
      const std::string label = fmt::format("{}", step.step);
      list_->AddLine(ImVec2(x, top + 3 * scale_), ImVec2(x, area_.y), colour::kDim);
      Text(list_, fonts_.small, x + 3 * scale_, top + 2 * scale_, colour::kDim, label);
      free_from = x + TextWidth(fonts_.small, label) + 12 * scale_;
    }
  }

  void PaintCursor() {
    if (!area_.Contains(mouse_.x, mouse_.y)) return;
    const double since =
        static_cast<double>(view_.axis.ToTime(mouse_.x - area_.x) - view_.run_begin_ns);
    const std::string label = fmt::format("{:.{}f} s", since / 1e9,
                                          view_.axis.ns_per_px() < 1e3   ? 9
                                          : view_.axis.ns_per_px() < 1e6 ? 6
                                                                         : 3);
    const float width = TextWidth(fonts_.small, label) + 10 * scale_;
    const float x = std::clamp(mouse_.x - width / 2, area_.x, area_.x + area_.width - width);
    list_->AddRectFilled(ImVec2(x, rect_.y + 1), ImVec2(x + width, rect_.y + 19 * scale_),
                         colour::kAccent, 3 * scale_);
    Text(list_, fonts_.small, x + 5 * scale_, rect_.y + 3 * scale_, Rgb(0x0c0e11), label);
  }

  void PaintScrollbar() {
    if (view_.lanes_height <= area_.height) return;
    const float width = 6 * scale_;
    const float length = std::max(24 * scale_, area_.height * area_.height / view_.lanes_height);
    const float share = view_.scroll / (view_.lanes_height - area_.height);
    const float y = area_.y + (area_.height - length) * share;
    const float x = area_.x + area_.width - width - 2;
    list_->AddRectFilled(ImVec2(x, y), ImVec2(x + width, y + length),
                         WithAlpha(colour::kText, 0.35f), width / 2);
  }

  // Losses of one thread shade its lanes, others all lanes.
  bool Concerns(const EventLossRow& loss, const Lane& lane) const {
    if (loss.place.rfind("thread ", 0) != 0) return true;
    const int64_t tid = std::atoll(loss.place.c_str() + 7);
    for (const TrackRow& track : catalog_.tracks) {
      if (std::find(lane.tracks.begin(), lane.tracks.end(), track.track_id) == lane.tracks.end()) {
        continue;
      }
      for (const ThreadRow& thread : catalog_.threads) {
        if (thread.thread_id == track.thread_id && thread.tid == tid &&
            thread.session_id == loss.session_id) {
          return true;
        }
      }
    }
    return false;
  }

  void PaintLosses() {
    for (const EventLossRow& loss : catalog_.losses) {
      const double from = view_.axis.ToPixel(loss.first_ns);
      const double to = view_.axis.ToPixel(loss.last_ns);
      if (to < 0 || from > area_.width) continue;
      const float x0 = area_.x + static_cast<float>(std::max(from, 0.0));
      const float x1 = std::max(x0 + 4 * scale_,
                                area_.x + static_cast<float>(std::min<double>(to, area_.width)));
      for (const int index : context_.lanes_in_sight) {
        const Lane& lane = lanes_[static_cast<size_t>(index)];
        if (IsTitle(lane.kind) || !Concerns(loss, lane)) continue;
        const LaneBox& box = context_.boxes[static_cast<size_t>(index)];
        const float top = area_.y + box.top - std::floor(view_.scroll);
        list_->AddRectFilled(ImVec2(x0, top), ImVec2(x1, top + box.height),
                             WithAlpha(Rgb(0x000000), 0.35f));
        Hatch(list_, x0, top, x1, top + box.height, 6 * scale_, WithAlpha(Rgb(0xffffff), 0.35f));
      }
      if (ImGui::IsMouseHoveringRect(ImVec2(x0, area_.y), ImVec2(x1, area_.y + area_.height)) &&
          !context_.hovered) {
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

  void PaintHighlight() {
    if (!view_.highlight) return;
    const float x0 = area_.x + static_cast<float>(std::clamp<double>(
                                   view_.axis.ToPixel(view_.highlight->begin_ns), -2, area_.width));
    const float x1 =
        area_.x + static_cast<float>(std::clamp<double>(view_.axis.ToPixel(view_.highlight->end_ns),
                                                        0, area_.width + 2.0));
    for (size_t i = 0; i < lanes_.size(); ++i) {
      const LaneBox& box = context_.boxes[i];
      if (box.height <= 0 || lanes_[i].subject != view_.highlight->subject) continue;
      const float top = area_.y + box.top - std::floor(view_.scroll);
      list_->AddRectFilled(ImVec2(rect_.x, top), ImVec2(x1, top + box.height),
                           WithAlpha(colour::kText, 0.07f));
    }
    for (const float x : {x0, x1}) {
      list_->AddLine(ImVec2(x, area_.y), ImVec2(x, area_.y + area_.height), colour::kAccent,
                     2 * scale_);
    }
    // What lies outside of the evidence steps back.
    const Colour shade = WithAlpha(colour::kBackground, 0.45f);
    list_->AddRectFilled(ImVec2(area_.x, area_.y), ImVec2(x0, area_.y + area_.height), shade);
    list_->AddRectFilled(ImVec2(x1, area_.y), Corner(area_), shade);
  }

  // The way of the selected message: an arrow from each stage to the next.
  void PaintMessage() {
    if (!context_.details || !view_.selected) return;
    ImVec2 from(0, 0);
    bool any = false;
    for (const MessageStage& stage : context_.details->stages) {
      if (stage.lane < 0 || static_cast<size_t>(stage.lane) >= context_.boxes.size()) continue;
      const LaneBox& box = context_.boxes[static_cast<size_t>(stage.lane)];
      if (box.height <= 0) continue;
      const float y = area_.y + box.top + 8 * scale_ - std::floor(view_.scroll);
      const auto at = [&](int64_t time_ns) {
        return area_.x + static_cast<float>(std::clamp(view_.axis.ToPixel(time_ns), -1e5, 1e5));
      };
      const ImVec2 to(at(stage.begin_ns), y);
      const bool moved = any && (std::fabs(from.y - to.y) > 2 || to.x - from.x > 3);
      if (moved) {
        const float bend = std::max(12 * scale_, std::fabs(to.x - from.x) * 0.4f);
        list_->AddBezierCubic(from, ImVec2(from.x + bend, from.y), ImVec2(to.x - bend, to.y), to,
                              colour::kSelection, 1.5f * scale_, 24);
        list_->AddTriangleFilled(ImVec2(to.x + 1, to.y),
                                 ImVec2(to.x - 7 * scale_, to.y - 4 * scale_),
                                 ImVec2(to.x - 7 * scale_, to.y + 4 * scale_), colour::kSelection);
      }
      from = ImVec2(at(stage.end_ns), y);
      any = true;
    }
  }

  PanelContext& context_;
  View& view_;
  PanelRect rect_;
  PanelRect area_;
  const Catalog& catalog_;
  float scale_;
  const Fonts& fonts_;
  ImDrawList* list_;
  ImVec2 mouse_;
  std::vector<Lane> lanes_;
};

}  // namespace

void DrawTimeline(PanelContext& context, View& view, const PanelRect& rect) {
  ImGui::SetNextWindowPos(ImVec2(rect.x, rect.y));
  ImGui::SetNextWindowSize(ImVec2(rect.width, rect.height));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, colour::kBackground);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(0, 0));
  if (ImGui::Begin("timeline", nullptr, kFixed)) TimelinePainter(context, view, rect).Paint();
  ImGui::End();
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
}

void DrawLegend(PanelContext& context, const PanelRect& rect) {
  ImDrawList* list = ImGui::GetForegroundDrawList();
  const float scale = context.scale();
  const Fonts& fonts = context.gui->fonts();
  list->AddRectFilled(ImVec2(rect.x, rect.y), ImVec2(rect.x + rect.width, rect.y + rect.height),
                      colour::kPanel);
  list->AddLine(ImVec2(rect.x, rect.y), ImVec2(rect.x + rect.width, rect.y), colour::kLine);
  float x = rect.x + 14 * scale;
  const float box = 10 * scale;
  const float text_y = rect.y + (rect.height - fonts.small->FontSize) / 2 - scale;
  const float box_y = rect.y + (rect.height - box) / 2;
  const std::string keys = "W S zoom   A D pan   F fit   / search   ? help";
  const float keys_x = rect.x + rect.width - TextWidth(fonts.small, keys) - 12 * scale;
  for (const State state : {State::kBusy, State::kWaitLink, State::kBlockedLink, State::kWaitCredit,
                            State::kWaitPeer, State::kBusyDiscarded, State::kHostBound,
                            State::kInput, State::kOtherWork, State::kIdle, State::kUnknown}) {
    const std::string label = StateLabel(state);
    const float width = box + 5 * scale + TextWidth(fonts.small, label) + 14 * scale;
    if (x + width > keys_x) break;
    list->AddRectFilled(ImVec2(x, box_y), ImVec2(x + box, box_y + box), StateColour(state));
    if (StateHatched(state)) {
      Hatch(list, x, box_y, x + box, box_y + box, 5 * scale, WithAlpha(Rgb(0x000000), 0.45f));
    }
    Text(list, fonts.small, x + box + 5 * scale, text_y, colour::kText, label);
    x += width;
  }
  Text(list, fonts.small, keys_x, text_y, colour::kDim, keys);
}

}  // namespace poolscope
