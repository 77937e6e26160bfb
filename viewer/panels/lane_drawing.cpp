#include "viewer/panels/lane_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "viewer/format.h"
#include "viewer/panels/batch.h"

namespace poolscope {
namespace {

// What would fill less than this beyond its neighbour is not drawn: while the view zooms out, a
// picture is for a moment finer than the screen.
float LeastPixels(const LaneCanvas& canvas, const LanePicture& picture) {
  const double column_px = static_cast<double>(picture.column_ns) / canvas.view->axis.ns_per_px();
  return column_px < 0.9 * canvas.context->scale() ? 1.6f : 0.7f;
}
constexpr float kLeastLabel = 40;

struct Look {
  Colour colour;
  Colour frame;  // around what is inferred; else the same
  std::string label;
  std::string name;  // shorter: the colour says the rest
};

// Colour and label of each sort of bar, worked out once a lane and frame.
class Looks {
 public:
  Looks(const PanelContext& context, const Lane& lane, const View& view)
      : context_(context), lane_(lane), view_(view) {}

  const Look& Of(const Bar& bar) {
    const uint64_t sort = uint64_t{bar.name} << 17 | uint64_t{bar.category & 0xff} << 9 |
                          uint64_t{bar.stage} << 1 | uint64_t{bar.inferred};
    const auto [found, fresh] = looks_[bar.colour].try_emplace(sort);
    if (fresh) found->second = Make(bar);
    return found->second;
  }

 private:
  Look Make(const Bar& bar) const {
    static constexpr const char* kStages[] = {"queued", "encode", "wire",
                                              "decode", "apply",  "receive"};
    const std::string name = context_.Name(bar.name);
    const std::string shown = context_.Label(bar.name, name);
    Look look{RangeColour(bar.category, name, context_.LinkIndex(name)), 0, shown, shown};
    if (bar.colour != 0 && view_.program_colours) look.colour = Visible(bar.colour);
    const auto category = static_cast<Category>(bar.category);
    if (category == Category::kTransfer && bar.stage < std::size(kStages)) {
      look.label = lane_.kind == LaneKind::kWire ? name : name + " " + kStages[bar.stage];
      if (bar.stage != static_cast<uint8_t>(Stage::kWire)) {
        look.colour = Mix(look.colour, colour::kBackground, 0.25f);
      }
    } else if (category == Category::kWaitLink) {
      look.label = "wait: " + name;
    } else if (category == Category::kBlockedLink) {
      look.label = "blocked: " + name;
    } else if (category == Category::kWaitCredit) {
      look.label = "wait: credit";
    }
    if (bar.name == 0 && bar.category == 0) look.colour = Rgb(0x6c7686);
    if (!view_.search.empty() && !NameMatches(name, view_.search)) {
      look.colour = Mix(look.colour, colour::kLane, 0.8f);
    }
    look.frame = look.colour;
    // As the job's own ranges transfers have another lane; on the wire only these are seen.
    if (bar.inferred && lane_.kind == LaneKind::kWire) {
      look.colour = Mix(look.colour, colour::kLane, 0.65f);
      look.label += ", inferred";
    }
    return look;
  }

  const PanelContext& context_;
  const Lane& lane_;
  const View& view_;
  std::map<Colour, std::unordered_map<uint64_t, Look>> looks_;  // by the program's colour
};

void Tooltip(const std::vector<std::string>& lines) {
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(ImGui::GetFontSize() * 50);  // names of C++ have thousands of letters
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i == 0) {
      ImGui::TextUnformatted(lines[i].c_str());
    } else {
      ImGui::TextDisabled("%s", lines[i].c_str());
    }
  }
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

std::string CurveValue(const Lane& lane, double value) {
  if (lane.kind == LaneKind::kBandwidth) return FormatBytes(value) + "/s";
  return lane.kind == LaneKind::kCounter ? FormatCounter(lane.counter, value) : FormatCount(value);
}

}  // namespace

float LaneCanvas::At(int64_t time_ns) const {
  const double px = view->axis.ToPixel(time_ns);
  return x + static_cast<float>(std::clamp(px, 0.0, static_cast<double>(width)));
}

bool LaneCanvas::Hit(float x0, float x1, float y0, float y1) const {
  return mouse_x >= x0 && mouse_x < x1 && mouse_y >= y0 && mouse_y < y1;
}

void DrawStates(const LaneCanvas& canvas, const LanePicture& picture) {
  const float scale = canvas.context->scale();
  const float bottom = canvas.top + canvas.height;
  RectBatch& batch = *canvas.plain;
  struct Label {
    float x0, x1;
    State state;
  };
  std::vector<Label> labels;
  const StateColumn* hovered = nullptr;
  float drawn_to = canvas.x - 2;
  const float least = LeastPixels(canvas, picture);
  for (const StateColumn& column : picture.states) {
    // A column narrower than a pixel still gets one, and keeps it when its neighbour is drawn.
    float x0 = canvas.At(column.begin_ns);
    const float x1 = std::max(canvas.At(column.end_ns), x0 + 1);
    if (x1 < canvas.x || x0 > canvas.x + canvas.width || x1 - drawn_to < least) continue;
    x0 = std::max(x0, drawn_to);
    drawn_to = x1;
    float y = bottom;
    int sum = 0;
    // Busy stands at the bottom and idle at the top, so that the busy share reads as a height.
    const auto part = [&](State state) {
      const int share = column.share[static_cast<size_t>(state)];
      if (share == 0) return;
      sum += share;
      const float to =
          sum >= 253 ? canvas.top : bottom - canvas.height * static_cast<float>(sum) / 255.0f;
      batch.Add(x0, to, x1, y, StateColour(state));
      y = to;
      if (share == 255 && x1 - x0 >= 10 * scale) labels.push_back({x0, x1, state});
    };
    part(State::kBusy);
    for (size_t i = 0; i < column.share.size(); ++i) {
      const auto state = static_cast<State>(i);
      if (state != State::kBusy && state != State::kIdle) part(state);
    }
    part(State::kIdle);
    if (canvas.Hit(x0, x1, canvas.top, bottom)) hovered = &column;
  }
  ImFont* font = canvas.context->gui->fonts().small;
  for (const Label& label : labels) {
    const Colour background = StateColour(label.state);
    const float x0 = std::max(label.x0, canvas.x);
    const float x1 = std::min(label.x1, canvas.x + canvas.width);
    const std::string text = StateLabel(label.state);
    const bool fits =
        canvas.height >= font->FontSize && x1 - x0 > TextWidth(font, text) + 10 * scale;
    if (StateHatched(label.state)) {
      Hatch(canvas.list, x0, canvas.top, x1, bottom, 7 * scale, WithAlpha(Rgb(0x000000), 0.25f));
    }
    if (fits && label.state != State::kIdle) {
      Text(canvas.list, font, x0 + 5 * scale,
           canvas.top + (canvas.height - font->FontSize) / 2 - scale, TextOn(background), text);
    }
  }
  if (hovered != nullptr) {
    std::vector<std::string> lines = {
        canvas.context->answer->catalog->lanes[static_cast<size_t>(canvas.lane)].label + ", " +
        FormatDuration(static_cast<double>(hovered->end_ns - hovered->begin_ns))};
    for (size_t i = 0; i < hovered->share.size(); ++i) {
      if (hovered->share[i] == 0) continue;
      lines.push_back(fmt::format("{} {}", StateLabel(static_cast<State>(i)),
                                  FormatPercent(hovered->share[i] / 255.0)));
    }
    Tooltip(lines);
  }
}

void DrawBars(const LaneCanvas& canvas, const Lane& lane, const LanePicture& picture) {
  PanelContext& context = *canvas.context;
  const float scale = context.scale();
  const uint16_t rows = std::max<uint16_t>(1, lane.rows);
  const float row_height = canvas.height / static_cast<float>(rows);
  const float gap = std::min(2.0f, row_height * 0.12f);
  ImFont* font = context.gui->fonts().small;
  Looks looks(context, lane, *canvas.view);
  struct Label {
    float x0, x1, y;
    Colour fill;
    const Look* look;
  };
  std::vector<Label> labels;
  const Bar* hovered = nullptr;
  const Bar* selected = nullptr;
  RectBatch& batch = *canvas.plain;
  const auto row_top = [&](const Bar& bar) {
    return canvas.top + row_height * static_cast<float>(std::min<int>(bar.row, rows - 1));
  };
  float drawn_to = canvas.x - 2;
  const float least = LeastPixels(canvas, picture);
  const float line = std::max(1.0f, std::floor(1.5f * scale));
  int row = -1;
  const int64_t sight_begin = canvas.view->axis.begin_ns();
  const int64_t sight_end = canvas.view->axis.end_ns();
  for (const Bar& bar : picture.bars) {
    if (bar.end_ns < sight_begin || bar.begin_ns > sight_end) continue;
    context.events_in_sight += bar.events;
    float x0 = canvas.At(bar.begin_ns);
    float x1 = std::max(canvas.At(bar.end_ns), x0 + 1);
    const float y0 = row_top(bar);
    const float y1 = y0 + row_height - gap;
    if (bar.row != row) drawn_to = canvas.x - 2;
    row = bar.row;
    if (x1 - drawn_to < least) continue;
    x0 = std::max(x0, drawn_to);
    drawn_to = x1;
    const Look& look = looks.Of(bar);
    Colour fill = look.colour;
    if (bar.events > 1) {  // several: dimmer, the more so the less they cover
      fill = Mix(colour::kLane, fill, 0.15f + 0.5f * static_cast<float>(bar.covered) / 255.0f);
    }
    if (canvas.Hit(x0, x1, y0, y1)) hovered = &bar;
    const EventKey key{canvas.lane, bar.begin_ns, bar.end_ns, bar.name};
    if (bar.events == 1 && canvas.view->selected == key) selected = &bar;
    if (bar.events == 1 && x1 - x0 > 4) x1 -= 1;  // neighbours stay apart
    if (look.frame != look.colour && x1 - x0 > 3 * line) {
      batch.Add(x0, y0, x1, y1, look.frame);
      batch.Add(x0 + line, y0 + line, x1 - line, y1 - line, fill);
    } else {
      batch.Add(x0, y0, x1, y1, fill);
    }
    if (x1 - x0 > kLeastLabel * scale && row_height >= font->FontSize)
      labels.push_back({x0, x1, y0, fill, &look});
  }
  for (const Label& label : labels) {
    const float x0 = std::max(label.x0, canvas.x) + 4 * scale;
    const float room = std::min(label.x1, canvas.x + canvas.width) - x0 - 3;
    // On the wire all bars carry the link's name: only where it fits.
    if (lane.kind == LaneKind::kWire && TextWidth(font, label.look->label) > room) continue;
    const bool whole = TextWidth(font, label.look->label) <= room;
    const std::string text = FitText(font, whole ? label.look->label : label.look->name, room);
    Text(canvas.list, font, x0, label.y + (row_height - gap - font->FontSize) / 2 - scale,
         TextOn(label.fill), text);
  }
  const auto outline = [&](const Bar& bar, Colour colour, float thickness) {
    const float y0 = row_top(bar);
    canvas.list->AddRect(
        ImVec2(canvas.At(bar.begin_ns), y0),
        ImVec2(std::max(canvas.At(bar.end_ns), canvas.At(bar.begin_ns) + 2), y0 + row_height - gap),
        colour, 0, 0, thickness);
  };
  if (selected != nullptr) outline(*selected, colour::kSelection, 2 * scale);
  if (hovered != nullptr) {
    outline(*hovered, WithAlpha(colour::kSelection, 0.6f), 1);
    const auto length = static_cast<double>(hovered->end_ns - hovered->begin_ns);
    std::vector<std::string> lines = {looks.Of(*hovered).label};
    if (hovered->events == 1) {
      context.hovered = EventKey{canvas.lane, hovered->begin_ns, hovered->end_ns, hovered->name};
      if (context.IsSymbol(hovered->name)) lines.push_back(context.Name(hovered->name));
      lines.push_back(FormatDuration(length));
      lines.push_back("click for details");
    } else {
      if (lines[0].empty()) lines[0] = "many ranges";
      lines[0] += " and others";
      lines.push_back(fmt::format("{} ranges cover {} of {}", FormatCount(hovered->events),
                                  FormatPercent(hovered->covered / 255.0), FormatDuration(length)));
      lines.push_back("zoom in to tell them apart");
    }
    Tooltip(lines);
  }
}

void DrawCurve(const LaneCanvas& canvas, const Lane& lane, const LanePicture& picture,
               double capacity) {
  PanelContext& context = *canvas.context;
  const float scale = context.scale();
  const bool counter = lane.kind == LaneKind::kCounter;
  const Colour tint = counter ? Rgb(0x9fb0c8) : LinkColour(context.LinkIndex(lane.subject));
  const double least_top = lane.kind == LaneKind::kLag ? 2.0 : IsShare(lane.counter) ? 1.0 : 1e-9;
  const double top_value = std::max(picture.max_value, least_top);
  const double range = top_value - picture.min_value;
  const float head = 4 * scale;  // room above the highest value
  const float bottom = canvas.top + canvas.height - 1;
  const auto level = [&](double value) {
    const double share = std::clamp((value - picture.min_value) / range, 0.0, 1.0);
    return bottom - static_cast<float>(share) * (canvas.height - head - 1);
  };
  RectBatch& batch = *canvas.plain;
  const Sample* hovered = nullptr;
  const float least = LeastPixels(canvas, picture);
  float last_y = -1;
  float last_x = -1;
  for (const Sample& sample : picture.samples) {
    const float x0 = canvas.At(sample.begin_ns);
    const float x1 = std::max(canvas.At(sample.end_ns), x0 + 1);
    if (x1 < canvas.x || x0 > canvas.x + canvas.width) continue;
    if (last_x >= 0 && x1 - last_x < least) continue;
    const float high = level(sample.high);
    const float low = level(sample.low);
    if (bottom - low > 0.5f) batch.Add(x0, low, x1, bottom, Mix(colour::kLane, tint, 0.38f));
    if (low - high > 0.5f) batch.Add(x0, high, x1, low, Mix(colour::kLane, tint, 0.2f));
    batch.Add(x0, high - scale, x1, high + 0.5f, tint);
    if (last_x >= 0 && std::fabs(last_x - x0) < 2 && std::fabs(last_y - high) > 1) {
      batch.Add(x0, std::min(last_y, high), x0 + 1, std::max(last_y, high), tint);
    }
    last_x = x1;
    last_y = high;
    if (canvas.Hit(x0, x1, canvas.top, canvas.top + canvas.height)) hovered = &sample;
  }
  if (capacity > 0) {
    const float y = level(capacity);
    for (float x = canvas.x; x < canvas.x + canvas.width; x += 9 * scale) {
      batch.Add(x, y, x + 5 * scale, y + 1, StateColour(State::kBlockedLink));
    }
  }
  if (hovered != nullptr) {
    const std::string low = CurveValue(lane, hovered->low);
    const std::string high = CurveValue(lane, hovered->high);
    Tooltip({counter ? lane.counter : lane.subject + " " + lane.label,
             low == high ? high : fmt::format("{} to {}", low, high)});
  }
}

}  // namespace poolscope
