#include <fmt/format.h>

#include <algorithm>

#include "viewer/format.h"
#include "viewer/panels/batch.h"
#include "viewer/panels/panel.h"

namespace poolscope {
namespace {

double Ratio(const PoolReport& pool, State state) {
  const auto found = pool.state_ratios.find(StateName(state));
  return found == pool.state_ratios.end() ? 0 : found->second;
}

// All states of a pool side by side, as one bar.
void StateBar(const PoolReport& pool, float scale) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  const float height = 13 * scale;
  ImDrawList* list = ImGui::GetWindowDrawList();
  float x = at.x;
  std::string text;
  const auto part = [&](State state) {
    const auto share = static_cast<float>(Ratio(pool, state));
    if (share <= 0) return;
    const float to = std::min(at.x + width, x + width * share);
    list->AddRectFilled(ImVec2(x, at.y), ImVec2(to, at.y + height), StateColour(state));
    if (StateHatched(state)) {
      Hatch(list, x, at.y, to, at.y + height, 6 * scale, WithAlpha(Rgb(0x000000), 0.3f));
    }
    x = to;
    if (share >= 0.005f) text += fmt::format("{} {}\n", StateLabel(state), FormatPercent(share));
  };
  part(State::kBusy);
  for (size_t i = 0; i < static_cast<size_t>(State::kCount); ++i) {
    if (static_cast<State>(i) != State::kBusy) part(static_cast<State>(i));
  }
  ImGui::Dummy(ImVec2(width, height));
  if (ImGui::IsItemHovered() && !text.empty()) {
    text.pop_back();
    ImGui::SetTooltip("%s", text.c_str());
  }
}

void RightAligned(const std::string& text) {
  const float room = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(text.c_str()).x;
  if (room > 0) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + room);
  ImGui::TextUnformatted(text.c_str());
}

void HeaderCell(const char* text, bool right) {
  ImGui::TableNextColumn();
  ImGui::PushStyleColor(ImGuiCol_Text, colour::kDim);
  if (right) {
    RightAligned(text);
  } else {
    ImGui::TextUnformatted(text);
  }
  ImGui::PopStyleColor();
}

// The worst non-busy state of a pool: what its idle time is made of.
std::string MainWait(const PoolReport& pool) {
  State worst = State::kIdle;
  for (size_t i = 0; i < static_cast<size_t>(State::kCount); ++i) {
    const auto state = static_cast<State>(i);
    if (state != State::kBusy && Ratio(pool, state) > Ratio(pool, worst)) worst = state;
  }
  if (Ratio(pool, worst) < 0.005) return "hardly waits";
  return fmt::format("{} {}", StateLabel(worst), FormatPercent(Ratio(pool, worst)));
}

void Pools(const Report& report, const PanelContext& context) {
  const float scale = context.scale();
  ImGui::PushFont(context.gui->fonts().bold);
  ImGui::TextUnformatted("Pools");
  ImGui::PopFont();
  if (report.pools.empty()) {
    ImGui::TextDisabled("none in this run");
    return;
  }
  for (const PoolReport& pool : report.pools) {
    ImGui::TextUnformatted(pool.name.c_str());
    ImGui::SameLine();
    ImGui::TextDisabled("%lld worker%s", static_cast<long long>(pool.workers),
                        pool.workers == 1 ? "" : "s");
    ImGui::SameLine();
    RightAligned(fmt::format("busy {}", FormatPercent(pool.busy_ratio)));
    StateBar(pool, scale);
    ImGui::PushFont(context.gui->fonts().small);
    ImGui::TextDisabled("%s", MainWait(pool).c_str());
    ImGui::PopFont();
    ImGui::Dummy(ImVec2(0, 2 * scale));
  }
}

void Links(const Report& report, const PanelContext& context) {
  ImGui::PushFont(context.gui->fonts().bold);
  ImGui::TextUnformatted("Links");
  ImGui::PopFont();
  if (report.links.empty()) {
    ImGui::TextDisabled("none in this run");
    return;
  }
  if (!ImGui::BeginTable("links", 5,
                         ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_SizingStretchProp)) {
    return;
  }
  ImGui::TableSetupColumn("link", 0, 2.2f);
  ImGui::TableSetupColumn("traffic", 0, 1.3f);
  ImGui::TableSetupColumn("exposed", 0, 1.4f);
  ImGui::TableSetupColumn("message", 0, 1.5f);
  ImGui::TableSetupColumn("depth", 0, 1.5f);
  ImGui::TableNextRow();
  HeaderCell("link", false);
  HeaderCell("traffic", true);
  HeaderCell("exposed", true);
  HeaderCell("message", true);
  HeaderCell("depth", true);
  for (const LinkReport& link : report.links) {
    const bool seen = link.transfers > 0;  // else these figures are not known
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::PushStyleColor(ImGuiCol_Text, LinkColour(context.LinkIndex(link.name)));
    ImGui::TextUnformatted(link.name.c_str());
    ImGui::PopStyleColor();
    if (ImGui::IsItemHovered()) {
      ImGui::SetTooltip("%s \xe2\x86\x92 %s\n%s messages\n%s raw, %s on the wire",
                        link.from.c_str(), link.to.c_str(),
                        FormatCount(static_cast<double>(link.transfers)).c_str(),
                        FormatBytes(static_cast<double>(link.raw_bytes)).c_str(),
                        FormatBytes(static_cast<double>(link.wire_bytes)).c_str());
    }
    ImGui::TableNextColumn();
    RightAligned(seen ? FormatPercent(link.traffic_share) : "-");
    ImGui::TableNextColumn();
    const bool high = link.exposed_share > 0.15;
    if (high) ImGui::PushStyleColor(ImGuiCol_Text, StateColour(State::kWaitLink));
    RightAligned(seen ? FormatPercent(link.exposed_share) : "-");
    if (high) ImGui::PopStyleColor();
    ImGui::TableNextColumn();
    RightAligned(seen ? FormatDuration(link.transfer_seconds * 1e9) : "-");
    ImGui::TableNextColumn();
    RightAligned(link.capacity > 0 ? fmt::format("{:.1f} / {}", link.depth, link.capacity)
                                   : fmt::format("{:.1f}", link.depth));
  }
  ImGui::EndTable();
}

void Devices(const Report& report, const PanelContext& context) {
  if (report.devices.empty()) return;
  ImGui::PushFont(context.gui->fonts().bold);
  ImGui::TextUnformatted("Devices");
  ImGui::PopFont();
  if (!ImGui::BeginTable("devices", 4,
                         ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_SizingStretchProp)) {
    return;
  }
  ImGui::TableSetupColumn("device", 0, 2.2f);
  ImGui::TableSetupColumn("SM", 0, 1.2f);
  ImGui::TableSetupColumn("DRAM", 0, 1.2f);
  ImGui::TableSetupColumn("source", 0, 1.8f);
  ImGui::TableNextRow();
  HeaderCell("device", false);
  HeaderCell("SM", true);
  HeaderCell("DRAM", true);
  HeaderCell("source", true);
  const auto ratio = [](const std::optional<double>& value) {
    return value ? FormatPercent(*value) : std::string("-");
  };
  for (const DeviceReport& device : report.devices) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::Text("%s %lld", device.host.c_str(), static_cast<long long>(device.device));
    if (ImGui::IsItemHovered()) {
      ImGui::SetTooltip(
          "%s\n%s\ntensor cores %s\n%s of %s in use", device.name.c_str(), device.uuid.c_str(),
          ratio(device.tensor_ratio).c_str(),
          FormatBytes(static_cast<double>(device.memory_used_bytes.value_or(0))).c_str(),
          FormatBytes(static_cast<double>(device.memory_bytes.value_or(0))).c_str());
    }
    ImGui::TableNextColumn();
    RightAligned(ratio(device.sm_ratio));
    ImGui::TableNextColumn();
    RightAligned(ratio(device.dram_ratio));
    ImGui::TableNextColumn();
    RightAligned(device.source);
  }
  ImGui::EndTable();
  ImGui::Dummy(ImVec2(0, 4 * context.scale()));
}

}  // namespace

void DrawOverview(PanelContext& context, View&) {
  if (!context.report) {
    ImGui::TextDisabled("%s", context.report_error.empty() ? "The report is being made\xe2\x80\xa6"
                                                           : context.report_error.c_str());
    return;
  }
  const Report& report = *context.report;
  Pools(report, context);
  ImGui::Dummy(ImVec2(0, 4 * context.scale()));
  Links(report, context);
  ImGui::Dummy(ImVec2(0, 4 * context.scale()));
  Devices(report, context);
  if (!report.links.empty()) {
    ImGui::Text("version lag");
    ImGui::SameLine();
    RightAligned(
        fmt::format("mean {:.2f}, max {}", report.version_lag_mean, report.version_lag_max));
  }
  if (report.replay_error) {
    ImGui::Text("replay of the run");
    ImGui::SameLine();
    RightAligned(FormatPercent(*report.replay_error) + " off");
  }
  if (!report.replay_note.empty()) Paragraph(FormatSentence(report.replay_note), colour::kDim);
  for (const std::string& unseen : report.unseen) {
    Paragraph("not seen: " + unseen, colour::kDim);
  }
  Paragraph(fmt::format("run {} on {}", report.run.substr(0, 8), report.host), colour::kDim);
}

}  // namespace poolscope
