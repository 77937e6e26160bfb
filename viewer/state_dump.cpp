#include "viewer/state_dump.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace poolscope {
namespace {

nlohmann::json RectJson(const PanelRect& rect) {
  return {{"x", rect.x}, {"y", rect.y}, {"width", rect.width}, {"height", rect.height}};
}

}  // namespace

std::string StateAsJson(const View& view, const PanelContext& context, bool settled) {
  nlohmann::json state;
  state["begin_ns"] = view.axis.begin_ns() - view.run_begin_ns;  // since the run's start
  state["end_ns"] = view.axis.end_ns() - view.run_begin_ns;
  state["run_ns"] = view.run_end_ns - view.run_begin_ns;
  state["scroll"] = view.scroll;
  state["follow"] = view.follow;
  state["live"] = context.live;
  state["panel"] = PanelName(view.panel);
  state["help"] = view.help;
  state["program_colours"] = view.program_colours;
  state["search"] = view.search;
  state["search_open"] = view.search_open && !view.search_focus;  // takes keys
  state["finding"] = view.finding;
  state["settled"] = settled;
  state["events_in_sight"] = context.events_in_sight;
  state["timeline"] = RectJson(context.timeline);
  state["selected"] = nullptr;
  if (view.selected) {
    state["selected"] = {{"lane", view.selected->lane},
                         {"name", context.Name(view.selected->name)},
                         {"begin_ns", view.selected->begin_ns - view.run_begin_ns},
                         {"end_ns", view.selected->end_ns - view.run_begin_ns}};
    state["details"] = context.details.has_value();
  }
  if (view.highlight) {
    state["highlight"] = {{"begin_ns", view.highlight->begin_ns - view.run_begin_ns},
                          {"end_ns", view.highlight->end_ns - view.run_begin_ns},
                          {"subject", view.highlight->subject}};
  }
  state["verdict"] = context.verdict;
  state["findings"] = nlohmann::json::array();
  for (size_t i = 0; i < context.finding_rects.size(); ++i) {
    nlohmann::json finding = RectJson(context.finding_rects[i]);
    if (context.report && i < context.report->findings.size()) {
      finding["rule"] = context.report->findings[i].rule;
    }
    state["findings"].push_back(finding);
  }
  state["lanes"] = nlohmann::json::array();
  for (const int lane : context.lanes_in_sight) {
    const auto index = static_cast<size_t>(lane);
    const Lane& row = context.answer->catalog->lanes[index];
    state["lanes"].push_back({{"label", row.label},
                              {"subject", row.subject},
                              {"ranges", row.kind == LaneKind::kRanges},
                              {"y", context.timeline.y + context.boxes[index].top - view.scroll},
                              {"height", context.boxes[index].height}});
  }
  return state.dump();
}

void WriteState(const std::string& file, const std::string& state, uint64_t frames) {
  const std::string fresh = file + ".new";
  {
    std::ofstream out(fresh);
    out << "{\"frames\":" << frames << "," << state.substr(1) << "\n";
    if (!out) return;
  }
  std::error_code ignored;
  std::filesystem::rename(fresh, file, ignored);
}

}  // namespace poolscope
