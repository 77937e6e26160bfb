#include "viewer/format.h"
#include "viewer/panels/batch.h"
#include "viewer/panels/panel.h"

namespace poolscope {
namespace {

const char* GroupOf(uint32_t category) {
  if (category == kDrawnCopy) return "copy";
  if (category == kDrawnSynchronization) return "synchronization";
  if (category == kDrawnOverhead) return "overhead";
  switch (static_cast<Category>(category)) {
    case Category::kWork:
      return "work";
    case Category::kTransfer:
      return "transfer";
    case Category::kWaitLink:
      return "wait, link";
    case Category::kBlockedLink:
      return "blocked";
    case Category::kWaitCredit:
      return "wait, credit";
    case Category::kWaitPeer:
      return "wait, peer";
    case Category::kHost:
      return "host";
    case Category::kInput:
      return "input";
    case Category::kOtherWork:
      return "other work";
    case Category::kPhase:
      return "phase";
    default:
      return "range";
  }
}

void Right(const std::string& text) {
  const float room = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(text.c_str()).x;
  if (room > 0) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + room);
  ImGui::TextUnformatted(text.c_str());
}

}  // namespace

void DrawStatistics(PanelContext& context, View& view) {
  const ViewAnswer& answer = *context.answer;
  if (answer.statistics.empty()) {
    ImGui::TextDisabled("%s", context.busy ? "being counted\xe2\x80\xa6" : "no ranges in sight");
    return;
  }
  const std::string span =
      FormatDuration(static_cast<double>(answer.statistics_end_ns - answer.statistics_begin_ns));
  ImGui::TextDisabled("ranges by name in the %s in sight", span.c_str());
  if (!ImGui::BeginTable("statistics", 4,
                         ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_BordersInnerH)) {
    return;
  }
  ImGui::TableSetupColumn("name", 0, 2.7f);
  ImGui::TableSetupColumn("ranges", 0, 1.0f);
  ImGui::TableSetupColumn("total", 0, 1.2f);
  ImGui::TableSetupColumn("mean", 0, 1.2f);
  ImGui::TableNextRow();
  for (const char* head : {"name", "ranges", "total", "mean"}) {
    ImGui::TableNextColumn();
    ImGui::PushStyleColor(ImGuiCol_Text, colour::kDim);
    if (head[0] == 'n') {
      ImGui::TextUnformatted(head);
    } else {
      Right(head);
    }
    ImGui::PopStyleColor();
  }
  const float scale = context.scale();
  for (const NameStatistics& row : answer.statistics) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const bool own = row.look.colour != 0 && view.program_colours;
    ImGui::GetWindowDrawList()->AddRectFilled(
        ImVec2(at.x, at.y + 3 * scale), ImVec2(at.x + 9 * scale, at.y + 12 * scale),
        own ? Visible(row.look.colour)
            : RangeColour(row.look.category, row.name, context.LinkIndex(row.name)));
    ImGui::SetCursorPosX(ImGui::GetCursorPosX() + 14 * scale);
    const std::string name = context.Label(row.name_id, row.name);
    const std::string group = GroupOf(row.look.category);
    const float room = ImGui::GetContentRegionAvail().x;
    ImGui::TextUnformatted(FitText(context.gui->fonts().text, name, room).c_str());
    if (name != row.name && ImGui::IsItemHovered()) {
      ImGui::BeginTooltip();
      ImGui::PushTextWrapPos(ImGui::GetFontSize() * 50);
      ImGui::TextUnformatted(row.name.c_str());
      ImGui::PopTextWrapPos();
      ImGui::EndTooltip();
    }
    ImGui::SameLine(0, 6 * scale);
    ImGui::TextDisabled(
        "%s", FitText(context.gui->fonts().text, group, ImGui::GetContentRegionAvail().x).c_str());
    ImGui::TableNextColumn();
    Right(FormatCount(static_cast<double>(row.events)));
    ImGui::TableNextColumn();
    Right(FormatDuration(static_cast<double>(row.total_ns)));
    ImGui::TableNextColumn();
    Right(FormatDuration(static_cast<double>(row.total_ns) / static_cast<double>(row.events)));
  }
  ImGui::EndTable();
}

}  // namespace poolscope
