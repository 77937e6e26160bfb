#include <algorithm>
#include <cstring>

#include "viewer/palette.h"
#include "viewer/panels/panel.h"

namespace poolscope {

void DrawSearch(PanelContext& context, View& view, const PanelRect& timeline) {
  if (!view.search_open) return;
  const float scale = context.scale();
  const float width = 340 * scale;
  ImGui::SetNextWindowPos(
      ImVec2(timeline.x + timeline.width - width - 14 * scale, timeline.y + 8 * scale));
  ImGui::SetNextWindowSize(ImVec2(width, 0));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, Rgb(0x232933));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);
  if (ImGui::Begin("search", nullptr,
                   ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoSavedSettings |
                       ImGuiWindowFlags_AlwaysAutoResize)) {
    char buffer[128] = {};
    std::memcpy(buffer, view.search.data(), std::min(view.search.size(), sizeof(buffer) - 1));
    if (view.search_focus) ImGui::SetKeyboardFocusHere();  // effective a frame later
    ImGui::SetNextItemWidth(-1);
    const bool enter = ImGui::InputTextWithHint("##name", "name of a range", buffer, sizeof(buffer),
                                                ImGuiInputTextFlags_EnterReturnsTrue);
    view.search = buffer;
    if (ImGui::IsItemActive()) view.search_focus = false;
    if (enter && !view.search.empty()) {
      view.search_order =
          View::SearchOrder{view.selected ? view.selected->begin_ns : view.axis.begin_ns(), true};
    }
    ImGui::TextDisabled("Enter: first   n N: next, previous   Esc: clear");
    const ImVec2 at = ImGui::GetWindowPos();
    const ImVec2 size = ImGui::GetWindowSize();
    context.overlays.push_back({at.x, at.y, size.x, size.y});
  }
  ImGui::End();
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
}

}  // namespace poolscope
