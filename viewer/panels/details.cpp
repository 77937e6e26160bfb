#include <fmt/format.h>

#include "viewer/format.h"
#include "viewer/panels/batch.h"
#include "viewer/panels/panel.h"

namespace poolscope {
namespace {

void Field(const std::string& name, const std::string& value, const PanelContext& context) {
  ImFont* font = context.gui->fonts().text;
  ImGui::TableNextColumn();
  ImGui::TextDisabled("%s", FitText(font, name, ImGui::GetContentRegionAvail().x).c_str());
  ImGui::TableNextColumn();
  ImGui::TextUnformatted(FitText(font, value, ImGui::GetContentRegionAvail().x).c_str());
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", value.c_str());
}

// The message's stages below one another on a common scale of time.
void Stages(const EventDetails& details, PanelContext& context, View& view) {
  static constexpr const char* kNames[] = {"queued", "encode", "wire",
                                           "decode", "apply",  "receive"};
  const float scale = context.scale();
  ImGui::Dummy(ImVec2(0, 4 * scale));
  ImGui::PushFont(context.gui->fonts().bold);
  ImGui::TextUnformatted("Stages of the message");
  ImGui::PopFont();
  int64_t begin = INT64_MAX;
  int64_t end = INT64_MIN;
  for (const MessageStage& stage : details.stages) {
    begin = std::min(begin, stage.begin_ns);
    end = std::max(end, stage.end_ns);
  }
  const double span = static_cast<double>(std::max<int64_t>(1, end - begin));
  if (!ImGui::BeginTable("stages", 4, ImGuiTableFlags_SizingStretchProp)) return;
  ImGui::TableSetupColumn("stage", 0, 1.1f);
  ImGui::TableSetupColumn("place", 0, 1.7f);
  ImGui::TableSetupColumn("time", 0, 1.2f);
  ImGui::TableSetupColumn("bar", 0, 2.6f);
  const Colour tint = LinkColour(context.LinkIndex(details.name));
  for (size_t i = 0; i < details.stages.size(); ++i) {
    const MessageStage& stage = details.stages[i];
    ImGui::PushID(static_cast<int>(i));
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    const char* name = stage.stage < std::size(kNames) ? kNames[stage.stage] : "unknown";
    if (ImGui::Selectable(name, false, ImGuiSelectableFlags_SpanAllColumns)) {
      const int64_t room = (stage.end_ns - stage.begin_ns) / 2 + 1000;
      view.Show(stage.begin_ns - room, stage.end_ns + room);
    }
    ImGui::TableNextColumn();
    const std::string place =
        FitText(context.gui->fonts().text, stage.place, ImGui::GetContentRegionAvail().x);
    ImGui::TextDisabled("%s", place.c_str());
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(
        FormatDuration(static_cast<double>(stage.end_ns - stage.begin_ns)).c_str());
    ImGui::TableNextColumn();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float width = ImGui::GetContentRegionAvail().x;
    const auto x = [&](int64_t time_ns) {
      return at.x + width * static_cast<float>(static_cast<double>(time_ns - begin) / span);
    };
    ImGui::GetWindowDrawList()->AddRectFilled(
        ImVec2(x(stage.begin_ns), at.y + 3 * scale),
        ImVec2(std::max(x(stage.end_ns), x(stage.begin_ns) + 2), at.y + 12 * scale),
        LifeStage(static_cast<Stage>(stage.stage)) == Stage::kWire
            ? tint
            : Mix(tint, colour::kPanel, 0.35f));
    ImGui::PopID();
  }
  ImGui::EndTable();
  const std::string total = fmt::format("{} from hand-over to the end", FormatDuration(span));
  ImGui::TextDisabled("%s", total.c_str());
}

}  // namespace

void DrawDetails(PanelContext& context, View& view) {
  if (!view.selected) {
    ImGui::PushTextWrapPos(0);
    ImGui::TextDisabled("Click a range or a transfer in the timeline to see what it carries.");
    ImGui::PopTextWrapPos();
    return;
  }
  if (!context.details) {
    ImGui::TextDisabled("%s", context.busy ? "being read\xe2\x80\xa6" : "no longer in the store");
    return;
  }
  const EventDetails& details = *context.details;
  ImGui::PushFont(context.gui->fonts().bold);
  ImGui::TextWrapped("%s", details.name.empty() ? "(no name)" : details.name.c_str());
  ImGui::PopFont();
  ImGui::TextDisabled("%s", details.kind.c_str());
  std::vector<std::pair<std::string, std::string>> fields = {
      {"duration", FormatDuration(static_cast<double>(details.end_ns - details.begin_ns))},
      {"begins at",
       fmt::format("{:.6f} s", static_cast<double>(details.begin_ns - view.run_begin_ns) / 1e9)}};
  if (!details.place.empty()) fields.emplace_back("on", details.place);
  fields.insert(fields.end(), details.fields.begin(), details.fields.end());
  if (ImGui::BeginTable("fields", 4, ImGuiTableFlags_SizingStretchProp)) {
    for (const float share : {1.1f, 1.4f, 1.3f, 1.2f}) ImGui::TableSetupColumn("", 0, share);
    for (size_t i = 0; i < fields.size(); ++i) {
      if (i % 2 == 0) ImGui::TableNextRow();
      Field(fields[i].first, fields[i].second, context);
    }
    ImGui::EndTable();
  }
  if (!details.stages.empty()) Stages(details, context, view);
}

}  // namespace poolscope
