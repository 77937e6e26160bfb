#include "viewer/panels/batch.h"
#include "viewer/panels/panel.h"

namespace poolscope {

void DrawHelp(PanelContext& context, View& view) {
  if (!view.help) return;
  static constexpr const char* kKeys[][2] = {
      {"W  S", "zoom in and out about the middle"},
      {"wheel", "zoom about the cursor; with Shift, or over the labels: scroll the lanes"},
      {"A  D,  \xe2\x86\x90  \xe2\x86\x92", "move left and right"},
      {"drag", "move the view in both directions"},
      {"\xe2\x86\x91  \xe2\x86\x93,  PgUp  PgDn", "scroll the lanes"},
      {"F  Home", "show the whole run"},
      {"End", "go to the newest time"},
      {"L", "follow a live run"},
      {"click", "select a range or transfer; on a title: fold its lanes"},
      {"E", "open all folded pools; again: fold the large ones"},
      {"C", "ranges in the program's own colours, or by name"},
      {"/", "search by name; n and N go to the next and previous"},
      {"1  2  3", "overview, details, statistics"},
      {"Esc", "clear selection, search and highlight"},
      {"?", "this help"}};
  const float scale = context.scale();
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos(ImVec2(screen.x / 2, screen.y / 2), 0, ImVec2(0.5f, 0.5f));
  ImGui::SetNextWindowFocus();
  ImGui::PushStyleColor(ImGuiCol_WindowBg, Rgb(0x232933));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(24 * scale, 18 * scale));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, 6 * scale);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);
  if (ImGui::Begin("help", nullptr,
                   ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_AlwaysAutoResize |
                       ImGuiWindowFlags_NoSavedSettings)) {
    ImGui::PushFont(context.gui->fonts().large);
    ImGui::TextUnformatted("Keys and mouse");
    ImGui::PopFont();
    ImGui::Dummy(ImVec2(0, 4 * scale));
    if (ImGui::BeginTable("keys", 2, ImGuiTableFlags_SizingFixedFit)) {
      for (const auto& [keys, meaning] : kKeys) {
        ImGui::TableNextRow();
        ImGui::TableNextColumn();
        ImGui::PushFont(context.gui->fonts().bold);
        ImGui::TextUnformatted(keys);
        ImGui::PopFont();
        ImGui::TableNextColumn();
        ImGui::Text("   %s", meaning);
      }
      ImGui::EndTable();
    }
    ImGui::Dummy(ImVec2(0, 4 * scale));
    ImGui::TextDisabled(
        "Green is work, warm colours are waiting; in a narrow column the height of "
        "the green is the busy share.");
    ImGui::TextDisabled("Framed on a wire: not marked by the job, but inferred from what it did.");
    ImGui::TextDisabled("Hatched over several lanes: events are known to be missing there.");
    const ImVec2 at = ImGui::GetWindowPos();
    const ImVec2 size = ImGui::GetWindowSize();
    context.overlays.push_back({at.x, at.y, size.x, size.y});
  }
  ImGui::End();
  ImGui::PopStyleVar(3);
  ImGui::PopStyleColor();
}

}  // namespace poolscope
