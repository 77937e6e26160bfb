#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viewer/format.h"
#include "viewer/panels/batch.h"
#include "viewer/panels/panel.h"

namespace poolscope {
float DrawVerdict(PanelContext& context, float width) {
  ImDrawList* list = ImGui::GetBackgroundDrawList();
  const float scale = context.scale();
  const Fonts& fonts = context.gui->fonts();
  const Catalog& catalog = *context.answer->catalog;
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
  const auto width_of = [&](const auto& figure) {
    return std::max(TextWidth(fonts.large, figure.first), TextWidth(fonts.small, figure.second)) +
           24 * scale;
  };
  // In a narrow window the verdict comes before the figures, and of these the last.
  float figures_width = 0;
  for (const auto& figure : figures) figures_width += width_of(figure);
  while (!figures.empty() && figures_width > width * 0.4f) {
    figures_width -= width_of(figures.front());
    figures.erase(figures.begin());
  }
  const float left = 20 * scale;
  const float room = std::max(40 * scale, width - left - figures_width - 16 * scale);
  ImFont* font = fonts.large;
  context.verdict = WrapText(font, verdict, room);
  if (context.verdict.size() > 2) {
    font = fonts.bold;
    context.verdict = WrapText(font, verdict, room);
  }
  const float line_height = font->FontSize * 1.25f;
  const float text_height = line_height * static_cast<float>(context.verdict.size());
  const float height = std::floor(std::max(58 * scale, text_height + 16 * scale));
  context.gui->Fill(0, 0, width, height, colour::kPanel);
  list->AddRectFilled(ImVec2(0, 0), ImVec2(6 * scale, height), tint);
  float x = width - 16 * scale;
  for (auto figure = figures.rbegin(); figure != figures.rend(); ++figure) {
    x -= width_of(*figure) - 24 * scale;
    const bool loss = figure->second == "events lost";
    const Colour value = loss                      ? SeverityColour("critical")
                         : figure->first == "LIVE" ? colour::kAccent
                                                   : colour::kText;
    const float top = (height - 36 * scale) / 2;
    Text(list, fonts.large, x, top, value, figure->first);
    Text(list, fonts.small, x, top + 22 * scale, colour::kDim, figure->second);
    x -= 24 * scale;
  }
  float y = (height - text_height) / 2 - scale;
  for (const std::string& line : context.verdict) {
    Text(list, font, left, y, colour::kText, line);
    y += line_height;
  }
  return height;
}

}  // namespace poolscope
