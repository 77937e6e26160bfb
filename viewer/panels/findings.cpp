#include <fmt/format.h>

#include <algorithm>

#include "viewer/format.h"
#include "viewer/panels/batch.h"
#include "viewer/panels/panel.h"

namespace poolscope {
namespace {

std::string Title(std::string rule) {
  std::replace(rule.begin(), rule.end(), '_', ' ');
  if (!rule.empty() && rule[0] >= 'a' && rule[0] <= 'z') rule[0] = static_cast<char>(rule[0] - 32);
  return rule;
}

// With arrows and unbroken numbers, but as it begins.
std::string Uncapitalised(const std::string& text) { return FormatSentence("." + text).substr(1); }

void Advice(const Recommendation& advice, const PanelContext& context) {
  const float scale = context.scale();
  const float right = 12 * scale;
  const Fonts& fonts = context.gui->fonts();
  ImGui::PushFont(fonts.bold);
  Paragraph("\xe2\x86\x92 " + Uncapitalised(advice.change), Rgb(0x2fc596), right);
  ImGui::PopFont();
  std::string gain =
      fmt::format("{} a step ({} to {}), {:.2f} times as fast",
                  FormatDuration(advice.predicted_step_seconds * 1e9),
                  FormatDuration(advice.interval_low * 1e9),
                  FormatDuration(advice.interval_high * 1e9), advice.predicted_speedup);
  Paragraph(FormatSentence(gain), colour::kText, right);
  std::string kind = advice.klass;
  if (advice.extrapolated) kind += ", extrapolated";
  Paragraph(kind, colour::kDim, right);
  if (!advice.apply.empty()) {
    ImGui::PushFont(fonts.mono);
    const float room = ImGui::GetContentRegionAvail().x - 24 * scale;
    const ImVec2 size = ImGui::CalcTextSize(advice.apply.c_str(), nullptr, false, room);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImGui::GetWindowDrawList()->AddRectFilled(
        at, ImVec2(at.x + room + 12 * scale, at.y + size.y + 8 * scale), Rgb(0x11141a), 3 * scale);
    ImGui::SetCursorScreenPos(ImVec2(at.x + 6 * scale, at.y + 4 * scale));
    ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + room);
    ImGui::TextUnformatted(advice.apply.c_str());
    ImGui::PopTextWrapPos();
    ImGui::SetCursorScreenPos(ImVec2(at.x, at.y + size.y + 12 * scale));
    ImGui::PopFont();
  }
}

// One finding; a click anywhere on it goes to its evidence. Returns where it was drawn.
PanelRect Card(const Finding& finding, int index, PanelContext& context, View& view) {
  const float scale = context.scale();
  const float right = 12 * scale;
  const bool chosen = view.finding == index;
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->ChannelsSplit(2);
  list->ChannelsSetCurrent(1);
  const ImVec2 start = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  ImGui::BeginGroup();
  ImGui::Dummy(ImVec2(width, 3 * scale));
  ImGui::Indent(12 * scale);
  const Colour tint = SeverityColour(finding.severity);
  ImGui::PushFont(context.gui->fonts().bold);
  ImGui::TextUnformatted(Title(finding.rule).c_str());
  ImGui::PopFont();
  ImGui::SameLine();
  ImGui::PushStyleColor(ImGuiCol_Text, tint);
  ImGui::TextUnformatted(finding.severity.c_str());
  ImGui::PopStyleColor();
  Paragraph(FormatSentence(finding.summary), colour::kText, right);
  if (finding.recommendation) {
    Advice(*finding.recommendation, context);
  } else if (!finding.abstained.empty()) {
    Paragraph("No recommendation: " + Uncapitalised(finding.abstained), colour::kDim, right);
  }
  if (chosen) {
    for (size_t i = 0; i < finding.evidence.size(); ++i) {
      const Evidence& evidence = finding.evidence[i];
      Paragraph("\xe2\x80\xa2 " + FormatSentence(evidence.text), colour::kDim, right);
      if (ImGui::IsItemClicked()) GoToFinding(view, *context.report, index, i);
    }
  }
  ImGui::Unindent(12 * scale);
  ImGui::Dummy(ImVec2(width, 2 * scale));
  ImGui::EndGroup();
  const ImVec2 end(start.x + width, ImGui::GetItemRectMax().y);
  list->ChannelsSetCurrent(0);
  const bool hovered = ImGui::IsWindowHovered() && ImGui::IsMouseHoveringRect(start, end);
  const Colour base = chosen ? Rgb(0x2d3644) : Rgb(0x222831);
  list->AddRectFilled(start, end, hovered ? Mix(base, colour::kText, 0.05f) : base, 3 * scale);
  list->AddRectFilled(start, ImVec2(start.x + 4 * scale, end.y), tint);
  list->ChannelsMerge();
  if (hovered && ImGui::IsMouseClicked(0) && !chosen) GoToFinding(view, *context.report, index, 0);
  return {start.x, start.y, width, end.y - start.y};
}

}  // namespace

void GoToFinding(View& view, const Report& report, int index, size_t evidence_index) {
  if (index < 0 || static_cast<size_t>(index) >= report.findings.size()) return;
  view.finding = index;
  const Finding& finding = report.findings[static_cast<size_t>(index)];
  std::string subject = finding.subject;
  if (evidence_index < finding.evidence.size()) {
    const Evidence& evidence = finding.evidence[evidence_index];
    if (!evidence.subject.empty()) subject = evidence.subject;
    if (evidence.end_ns > evidence.begin_ns) {
      const int64_t room = (evidence.end_ns - evidence.begin_ns) / 12 + 1;
      view.Show(evidence.begin_ns - room, evidence.end_ns + room);
      view.highlight = View::Highlight{evidence.begin_ns, evidence.end_ns, subject};
    }
  }
  view.reveal = subject;
}

void DrawFindings(PanelContext& context, View& view) {
  context.finding_rects.clear();
  ImGui::PushFont(context.gui->fonts().bold);
  ImGui::TextUnformatted("Findings");
  ImGui::PopFont();
  if (!context.report) {
    ImGui::TextDisabled("%s",
                        context.report_error.empty() ? "being looked for\xe2\x80\xa6" : "none");
    return;
  }
  const Report& report = *context.report;
  ImGui::SameLine();
  ImGui::TextDisabled("%s", !report.findings.empty() ? "a click goes to the evidence"
                            : report.pools.empty()   ? "none: without pools nothing can be judged"
                                                     : "none: nothing stands out");
  for (size_t i = 0; i < report.findings.size(); ++i) {
    ImGui::PushID(static_cast<int>(i));
    context.finding_rects.push_back(Card(report.findings[i], static_cast<int>(i), context, view));
    ImGui::PopID();
  }
}

}  // namespace poolscope
