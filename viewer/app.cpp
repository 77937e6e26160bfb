#include "viewer/app.h"

#include <algorithm>
#include <cmath>

#include "viewer/palette.h"
#include "viewer/state_dump.h"

namespace poolscope {
namespace {

constexpr double kWheelZoom = 0.82;
constexpr float kWheelScroll = 48;
constexpr float kClickDistance = 4;   // the mouse may move this far within a click
constexpr int kFramesAfterInput = 3;  // so that ImGui's hover and focus come to rest
constexpr double kAskEverySeconds = 0.1;

// The widest column of one to two pixels whose width is a power of two: small zooms reuse pictures.
int64_t ColumnNs(const TimeAxis& axis, float scale) {
  const double wanted = 2 * axis.ns_per_px() * std::max(1.0f, scale);
  int64_t column = 1;
  while (static_cast<double>(column) * 2 <= wanted && column < (int64_t{1} << 60)) column *= 2;
  return column;
}

ImGuiWindowFlags SideFlags() {
  return ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoMove |
         ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoSavedSettings |
         ImGuiWindowFlags_NoBringToFrontOnFocus | ImGuiWindowFlags_NoBackground;
}

void PlaceNext(const PanelRect& rect) {
  ImGui::SetNextWindowPos(ImVec2(rect.x, rect.y));
  ImGui::SetNextWindowSize(ImVec2(rect.width, rect.height));
}

void Tabs(PanelContext& context, View& view) {
  const struct {
    Panel panel;
    const char* label;
  } tabs[] = {{Panel::kOverview, "1 Overview"},
              {Panel::kDetails, "2 Details"},
              {Panel::kStatistics, "3 Statistics"}};
  const float scale = context.scale();
  for (const auto& tab : tabs) {
    const bool chosen = view.panel == tab.panel;
    ImGui::PushFont(chosen ? context.gui->fonts().bold : context.gui->fonts().text);
    ImGui::PushStyleColor(ImGuiCol_Text, chosen ? colour::kText : colour::kDim);
    ImGui::TextUnformatted(tab.label);
    ImGui::PopStyleColor();
    ImGui::PopFont();
    const ImVec2 low = ImGui::GetItemRectMin();
    const ImVec2 high = ImGui::GetItemRectMax();
    if (ImGui::IsItemClicked()) view.panel = tab.panel;
    if (chosen) {
      ImGui::GetWindowDrawList()->AddRectFilled(
          ImVec2(low.x, high.y + 2 * scale), ImVec2(high.x, high.y + 4 * scale), colour::kAccent);
    }
    ImGui::SameLine(0, 18 * scale);
  }
  ImGui::NewLine();
  ImGui::Dummy(ImVec2(0, 2 * scale));
  ImGui::Separator();
  ImGui::Dummy(ImVec2(0, 2 * scale));
}

}  // namespace

App::App(ViewModel& model, AppOptions options) : model_(model), options_(std::move(options)) {
  view_.panel = options_.panel;
  view_.program_colours = options_.program_colours;
  if (options_.unfold) view_.Press('E', false);
}

void App::TakeInput(const std::deque<InputEvent>& events) {
  const bool typing = ImGui::GetIO().WantTextInput;
  const PanelRect& area = context_.timeline;
  const PanelRect labels{area.x - 1e4f, area.y, 1e4f, area.height};
  const auto covered = [&](float x, float y) {
    return std::any_of(context_.overlays.begin(), context_.overlays.end(),
                       [&](const PanelRect& rect) { return rect.Contains(x, y); });
  };
  for (const InputEvent& event : events) {
    restless_ = kFramesAfterInput;
    switch (event.kind) {
      case InputEvent::Kind::kKey:
        if (!event.down) break;
        if (event.code == kKeyEscape) {
          view_.Press(kKeyEscape, false);
        } else if (!typing && !event.control && event.code != '/') {
          view_.Press(event.code, event.shift);
        }
        break;
      case InputEvent::Kind::kCharacter:
        // By character, because these keys lie elsewhere on other keyboards.
        if (!typing && (event.code == '/' || event.code == '?')) view_.Press(event.code, false);
        break;
      case InputEvent::Kind::kWheel:
        if (covered(event.x, event.y)) break;
        if (area.Contains(event.x, event.y) && !event.shift) {
          if (event.dy != 0) view_.Zoom(event.x - area.x, std::pow(kWheelZoom, event.dy));
          if (event.dx != 0) view_.Pan(event.dx * kWheelScroll);
        } else if (area.Contains(event.x, event.y) || labels.Contains(event.x, event.y)) {
          view_.Scroll(-event.dy * kWheelScroll);
        }
        break;
      case InputEvent::Kind::kButton:
        if (event.code != 0) break;
        last_cursor_ = ImVec2(event.x, event.y);
        if (event.down) {
          dragging_ = (area.Contains(event.x, event.y) || labels.Contains(event.x, event.y)) &&
                      !covered(event.x, event.y);
          drag_distance_ = 0;
        } else {
          if (dragging_ && drag_distance_ < kClickDistance) clicked_ = true;
          dragging_ = false;
        }
        break;
      case InputEvent::Kind::kMove:
        if (dragging_) {
          const float dx = event.x - last_cursor_.x;
          const float dy = event.y - last_cursor_.y;
          drag_distance_ += std::fabs(dx) + std::fabs(dy);
          if (drag_distance_ >= kClickDistance) {
            view_.Pan(dx);
            view_.Scroll(-dy);
          }
        }
        last_cursor_ = ImVec2(event.x, event.y);
        break;
      case InputEvent::Kind::kLeave:
        break;
    }
  }
}

void App::TakeAnswers(const ViewAnswer& answer) {
  view_.Grow(answer.catalog->begin_ns, answer.catalog->end_ns);
  if (!started_) {
    started_ = true;
    view_.Fit();
    view_.follow = model_.live();
    if (options_.begin_seconds >= 0 || options_.end_seconds >= 0) {
      const double begin = std::max(0.0, options_.begin_seconds) * 1e9;
      const int64_t from = view_.run_begin_ns + static_cast<int64_t>(begin);
      const int64_t to = options_.end_seconds >= 0
                             ? view_.run_begin_ns + static_cast<int64_t>(options_.end_seconds * 1e9)
                             : view_.run_end_ns;
      view_.Show(from, std::max(from + 1, to));
    }
  }
  if (!options_.search.empty()) {
    view_.search = std::exchange(options_.search, {});
    view_.search_order = View::SearchOrder{view_.axis.begin_ns(), true};
    view_.panel = Panel::kDetails;
  }
  if (options_.select_finding >= 0 && context_.report) {
    const int wanted = std::exchange(options_.select_finding, -1);
    const View before = view_;
    GoToFinding(view_, *context_.report, wanted, 0);
    if (options_.begin_seconds >= 0 || options_.end_seconds >= 0) {  // the span given wins
      view_.axis = before.axis;
      view_.fit = before.fit;
      view_.follow = before.follow;
    }
  }
  const ViewModel::Found found = model_.found();
  if (found.serial != view_.search_serial) {
    view_.search_serial = found.serial;
    if (found.key) {
      view_.selected = found.key;
      const int64_t length = std::max<int64_t>(1, found.key->end_ns - found.key->begin_ns);
      const double least = view_.axis.span_ns() / 40;
      if (static_cast<double>(length) < least || static_cast<double>(length) > least * 40) {
        view_.Show(found.key->begin_ns - length * 6, found.key->end_ns + length * 6);
      } else {
        const double middle = view_.axis.ToPixel(found.key->begin_ns + length / 2);
        view_.Pan(view_.axis.width_px() / 2 - middle);
      }
      const auto lane = static_cast<size_t>(found.key->lane);
      if (lane < context_.boxes.size()) {
        view_.scroll = context_.boxes[lane].top - view_.sight_height / 2;
      }
    }
  }
}

void App::AskModel(const ViewAnswer& answer) {
  if (view_.search_order) {
    model_.Search(view_.search, view_.search_order->from_ns, view_.search_order->forward);
    view_.search_order.reset();
  }
  if (view_.selected != asked_) {
    asked_ = view_.selected;
    if (asked_) model_.AskDetails(*asked_);
  }
  ViewRequest request;
  request.begin_ns = view_.axis.begin_ns();
  request.end_ns = view_.axis.end_ns();
  request.column_ns = ColumnNs(view_.axis, context_.scale());
  request.statistics = view_.panel == Panel::kStatistics;
  bool wanted = request.statistics && (answer.statistics_begin_ns != request.begin_ns ||
                                       answer.statistics_end_ns != request.end_ns);
  for (const int lane : context_.lanes_in_sight) {
    const auto index = static_cast<size_t>(lane);
    if (index >= answer.lanes.size() || IsTitle(answer.catalog->lanes[index].kind)) continue;
    request.lanes.push_back(lane);
    const auto& picture = answer.lanes[index];
    wanted = wanted || !picture || !picture->detail || picture->column_ns != request.column_ns ||
             !picture->Covers(request.begin_ns, request.end_ns);
  }
  settled_ = !wanted && !model_.busy() && frames_ >= 4;
  if (!wanted) return;
  // While the view moves, a request that is replaced each frame would never be answered.
  const double now = ImGui::GetTime();
  if (model_.busy() && now - last_ask_ < kAskEverySeconds) {
    restless_ = std::max(restless_, 1);
    return;
  }
  last_ask_ = now;
  model_.Ask(request);
}

void App::Frame(const std::deque<InputEvent>& events, Gui& gui, int width, int height) {
  ++frames_;
  if (restless_ > 0) --restless_;
  context_.gui = &gui;
  context_.answer = model_.answer();
  context_.report = model_.report();
  context_.report_error = model_.report_error();
  context_.details = view_.selected ? model_.details() : std::nullopt;
  context_.live = model_.live();
  context_.busy = model_.busy();

  const float scale = gui.scale();
  const auto w = static_cast<float>(width);
  const auto h = static_cast<float>(height);
  const float top = DrawVerdict(context_, w);
  const float legend = std::floor(24 * scale);
  const float side = std::floor(std::clamp(w * 0.27f, 340 * scale, 460 * scale));
  const float main_height = std::max(80.0f, h - top - legend);
  const PanelRect timeline{0, top, std::max(200.0f, w - side), main_height};
  if (!started_) view_.axis.Resize(timeline.width - std::floor(176 * scale));
  TakeInput(events);
  TakeAnswers(*context_.answer);

  context_.overlays.clear();
  gui.Fill(timeline.width, top, side, main_height, colour::kPanel);
  gui.Fill(0, top, timeline.width, std::floor(40 * scale), colour::kPanel);
  DrawTimeline(context_, view_, timeline);
  const float upper = std::floor(main_height * 0.52f);
  PlaceNext({timeline.width, top, side, upper});
  if (ImGui::Begin("side", nullptr, SideFlags())) {
    Tabs(context_, view_);
    if (ImGui::BeginChild("panel", ImVec2(0, 0), false, ImGuiWindowFlags_NoBackground)) {
      if (view_.panel == Panel::kOverview) DrawOverview(context_, view_);
      if (view_.panel == Panel::kDetails) DrawDetails(context_, view_);
      if (view_.panel == Panel::kStatistics) DrawStatistics(context_, view_);
    }
    ImGui::EndChild();
  }
  ImGui::End();
  PlaceNext({timeline.width, top + upper, side, main_height - upper});
  if (ImGui::Begin("findings", nullptr, SideFlags())) DrawFindings(context_, view_);
  ImGui::End();
  ImDrawList* front = ImGui::GetForegroundDrawList();
  front->AddLine(ImVec2(timeline.width, top), ImVec2(timeline.width, h - legend), colour::kLine);
  front->AddLine(ImVec2(timeline.width, top + upper), ImVec2(w, top + upper), colour::kLine);
  front->AddLine(ImVec2(0, top), ImVec2(w, top), colour::kLine);
  DrawLegend(context_, {0, h - legend, w, legend});
  DrawSearch(context_, view_, context_.timeline);
  DrawHelp(context_, view_);

  if (clicked_) {
    clicked_ = false;
    if (context_.hovered_title >= 0) {
      const auto title = static_cast<size_t>(context_.hovered_title);
      view_.ToggleFold(context_.answer->catalog->lanes[title], view_.folded[title]);
    } else {
      view_.selected = context_.hovered;
      if (view_.selected) view_.panel = Panel::kDetails;
    }
  }
  AskModel(*context_.answer);
  if (context_.answer != last_answer_ || context_.report != last_report_) {
    last_answer_ = context_.answer;
    last_report_ = context_.report;
    restless_ = std::max(restless_, 2);
  }
  if (!options_.dump_state.empty()) DumpState();
}

void App::DumpState() {
  const std::string now = StateAsJson(view_, context_, settled_);
  if (now == dumped_) return;
  dumped_ = now;
  WriteState(options_.dump_state, now, frames_);
}

}  // namespace poolscope
