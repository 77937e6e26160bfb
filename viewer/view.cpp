#include "viewer/view.h"

#include <algorithm>

namespace poolscope {
namespace {

constexpr double kRoom = 0.015;  // of the run, on each side of a fit
constexpr double kKeyZoom = 0.8;
constexpr double kKeyPan = 0.12;  // of the width
constexpr float kKeyScroll = 60;
constexpr double kFollowSpanNs = 60e9;  // a live run shorter than this is shown whole

}  // namespace

std::optional<Panel> PanelByName(const std::string& name) {
  for (const Panel panel : {Panel::kOverview, Panel::kDetails, Panel::kStatistics}) {
    if (name == PanelName(panel)) return panel;
  }
  return std::nullopt;
}

const char* PanelName(Panel panel) {
  switch (panel) {
    case Panel::kDetails:
      return "details";
    case Panel::kStatistics:
      return "statistics";
    case Panel::kOverview:
      break;
  }
  return "overview";
}

void View::Fit() {
  const double span = static_cast<double>(run_end_ns - run_begin_ns);
  const auto room = static_cast<int64_t>(span * kRoom);
  axis.Show(run_begin_ns - room, run_end_ns + room, axis.width_px());
  fit = true;
}

void View::Show(int64_t begin_ns, int64_t end_ns) {
  axis.Show(begin_ns, end_ns, axis.width_px());
  fit = false;
  follow = false;
}

void View::Zoom(double px, double factor) {
  axis.ZoomAt(follow ? axis.width_px() : px, factor);
  fit = false;
}

void View::Pan(double px) {
  axis.PanBy(px);
  fit = false;
  follow = false;
}

void View::Scroll(float px) {
  scroll = std::clamp(scroll + px, 0.0f, std::max(0.0f, lanes_height - sight_height));
}

void View::Clear() {
  if (help) {
    help = false;
    return;
  }
  selected.reset();
  highlight.reset();
  finding = -1;
  search.clear();
  search_open = false;
}

void View::Grow(int64_t begin_ns, int64_t end_ns) {
  run_begin_ns = begin_ns;
  run_end_ns = std::max(end_ns, begin_ns + 1);
  if (follow) {
    FollowEnd();
  } else if (fit) {
    Fit();
  }
}

void View::FoldLanes(const std::vector<Lane>& lanes) {
  const std::vector<bool> start = StartFolded(lanes);
  const auto key = [&](size_t i) { return std::pair(lanes[i].kind, lanes[i].subject); };
  const auto apply = [&] {
    folded = start;
    for (size_t i = 0; i < lanes.size(); ++i) {
      if (!IsTitle(lanes[i].kind)) continue;
      const auto choice = fold_choice_.find(key(i));
      if (choice != fold_choice_.end()) folded[i] = choice->second;
    }
  };
  apply();
  if (!std::exchange(fold_order_, false)) return;
  const bool any = std::find(folded.begin(), folded.end(), true) != folded.end();
  fold_choice_.clear();
  for (size_t i = 0; i < lanes.size() && any; ++i) {
    if (IsTitle(lanes[i].kind)) fold_choice_[key(i)] = false;
  }
  apply();
}

void View::ToggleFold(const Lane& title, bool folded_now) {
  fold_choice_[{title.kind, title.subject}] = !folded_now;
}

void View::FollowEnd() {
  const double run = static_cast<double>(run_end_ns - run_begin_ns);
  if (fit && run <= kFollowSpanNs) {
    Fit();
    return;
  }
  if (fit) axis.Show(run_end_ns - static_cast<int64_t>(kFollowSpanNs), run_end_ns, axis.width_px());
  fit = false;
  const auto room = static_cast<int64_t>(axis.span_ns() * kRoom);
  const auto span = static_cast<int64_t>(axis.span_ns());
  axis.Show(run_end_ns + room - span, run_end_ns + room, axis.width_px());
}

void View::SearchNext(bool forward) {
  if (search.empty()) return;
  const int64_t middle = axis.ToTime(axis.width_px() / 2);
  search_order = SearchOrder{selected ? selected->begin_ns : middle, forward};
}

bool View::Press(int key, bool shift) {
  switch (key) {
    case 'W':
      Zoom(axis.width_px() / 2, kKeyZoom);
      return true;
    case 'S':
      Zoom(axis.width_px() / 2, 1 / kKeyZoom);
      return true;
    case 'A':
    case kKeyLeft:
      Pan(axis.width_px() * kKeyPan);
      return true;
    case 'D':
    case kKeyRight:
      Pan(-axis.width_px() * kKeyPan);
      return true;
    case kKeyUp:
      Scroll(-kKeyScroll);
      return true;
    case kKeyDown:
      Scroll(kKeyScroll);
      return true;
    case kKeyPageUp:
      Scroll(-sight_height * 0.9f);
      return true;
    case kKeyPageDown:
      Scroll(sight_height * 0.9f);
      return true;
    case kKeyHome:
    case 'F':
      follow = false;
      Fit();
      return true;
    case kKeyEnd:
      FollowEnd();
      return true;
    case 'L':
      follow = !follow;
      if (follow) FollowEnd();
      return true;
    case 'E':
      fold_order_ = true;
      return true;
    case 'C':
      program_colours = !program_colours;
      return true;
    case '/':
      search_open = true;
      search_focus = true;
      return true;
    case 'N':
      SearchNext(!shift);
      return true;
    case '1':
      panel = Panel::kOverview;
      return true;
    case '2':
      panel = Panel::kDetails;
      return true;
    case '3':
      panel = Panel::kStatistics;
      return true;
    case '?':
      help = !help;
      return true;
    case kKeyEscape:
      Clear();
      return true;
    default:
      return false;
  }
}

}  // namespace poolscope
