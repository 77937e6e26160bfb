#include <fmt/format.h>

#include <algorithm>

#include "viewer/format.h"
#include "viewer/panels/batch.h"
#include "viewer/panels/panel.h"

namespace poolscope {
void DrawVerdict(PanelContext& context, View&, const PanelRect& rect) {
  ImDrawList* list = ImGui::GetBackgroundDrawList();
  const float scale = context.scale();
  const Fonts& fonts = context.gui->fonts();
  const Catalog& catalog = *context.answer->catalog;
  context.gui->Fill(rect.x, rect.y, rect.width, rect.height, colour::kPanel);
  std::string verdict = "Looking for the bottleneck\xe2\x80\xa6";
  Colour tint = colour::kDim;
  if (context.report) {
    verdict = FormatSentence(context.report->verdict);
    if (!context.report->pools.empty()) tint = StateColour(State::kBusy);
    for (const Finding& finding : context.report->findings) {
      tint = SeverityColour(finding.severity);
      if (finding.severity != "note") break;
    }
  } else if (!context.report_error.empty()) {
    verdict = "No verdict: " + context.report_error;
  }
  if (!context.answer->error.empty()) {
    verdict = context.answer->error;
    tint = SeverityColour("critical");
  }
  list->AddRectFilled(ImVec2(rect.x, rect.y), ImVec2(rect.x + 6 * scale, rect.y + rect.height),
                      tint);

  // Figures of the run, from the right.
  std::vector<std::pair<std::string, std::string>> figures;
  figures.emplace_back(FormatDuration(static_cast<double>(catalog.end_ns - catalog.begin_ns)),
                       "run time");
  if (context.report) {
    const Report& report = *context.report;
    figures.emplace_back(FormatCount(static_cast<double>(report.steps)), "steps");
    if (report.step_seconds) {
      figures.emplace_back(FormatDuration(*report.step_seconds * 1e9), "a step");
    }
    if (report.tokens_per_second) {
      figures.emplace_back(FormatCount(*report.tokens_per_second), "tokens/s");
    }
    if (!report.event_losses.empty()) {
      int64_t lost = 0;
      for (const EventLossRow& loss : report.event_losses) lost += loss.events.value_or(0);
      figures.emplace_back(lost > 0 ? FormatCount(static_cast<double>(lost)) : "some",
                           "events lost");
    }
  }
  if (context.live) figures.emplace_back("LIVE", "L follows");
  float x = rect.x + rect.width - 16 * scale;
  for (auto figure = figures.rbegin(); figure != figures.rend(); ++figure) {
    const float width =
        std::max(TextWidth(fonts.large, figure->first), TextWidth(fonts.small, figure->second));
    x -= width;
    const bool loss = figure->second == "events lost";
    const Colour value = loss                      ? SeverityColour("critical")
                         : figure->first == "LIVE" ? colour::kAccent
                                                   : colour::kText;
    const float top = rect.y + (rect.height - 36 * scale) / 2;
    Text(list, fonts.large, x, top, value, figure->first);
    Text(list, fonts.small, x, top + 22 * scale, colour::kDim, figure->second);
    x -= 24 * scale;
  }
  const float left = rect.x + 20 * scale;
  const auto lines = WrapText(fonts.large, verdict, x - left, 2);
  const float line_height = fonts.large->FontSize * 1.25f;
  float y = rect.y + (rect.height - line_height * static_cast<float>(lines.size())) / 2 - scale;
  for (const std::string& line : lines) {
    Text(list, fonts.large, left, y, colour::kText, line);
    y += line_height;
  }
}

}  // namespace poolscope
