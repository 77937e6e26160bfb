#pragma once

#include <deque>
#include <memory>
#include <string>

#include "viewer/gui.h"
#include "viewer/model.h"
#include "viewer/panels/panel.h"
#include "viewer/view.h"

namespace poolscope {

struct AppOptions {
  double begin_seconds = -1;  // from the run's start; < 0: the whole run
  double end_seconds = -1;
  Panel panel = Panel::kOverview;
  int select_finding = -1;
  bool program_colours = true;
  bool unfold = false;
  std::string search;      // goes to the first range whose name contains it
  std::string dump_state;  // file that gets the view as JSON at each change; "" none
};

// One frame after another: input to the view, the view's wishes to the model, the model's answer to
// the screen. Knows nothing of windows; used by the window, the screenshot and the bench alike.
class App {
 public:
  App(ViewModel& model, AppOptions options);

  // Between Gui::Begin and Gui::End.
  void Frame(const std::deque<InputEvent>& events, Gui& gui, int width, int height);

  // All that the view needs has been read and drawn.
  bool settled() const { return settled_; }
  // A frame should follow at once, though nothing came in.
  bool restless() const { return restless_ > 0; }
  View& view() { return view_; }
  // Length of the run, and findings of its report; 0 until they have been read.
  double run_seconds() const {
    return static_cast<double>(view_.run_end_ns - view_.run_begin_ns) * 1e-9;
  }
  int findings() const {
    return context_.report ? static_cast<int>(context_.report->findings.size()) : 0;
  }
  uint64_t frames() const { return frames_; }

 private:
  void TakeInput(const std::deque<InputEvent>& events);
  void TakeAnswers(const ViewAnswer& answer);
  void AskModel(const ViewAnswer& answer);
  void DumpState();

  ViewModel& model_;
  AppOptions options_;
  View view_;
  PanelContext context_;
  uint64_t frames_ = 0;
  int restless_ = 3;
  bool settled_ = false;
  bool started_ = false;
  bool clicked_ = false;
  bool dragging_ = false;
  float drag_distance_ = 0;
  ImVec2 last_cursor_{0, 0};
  std::optional<EventKey> asked_;  // whose details the model was asked for
  double last_ask_ = -1;
  std::shared_ptr<const ViewAnswer> last_answer_;
  std::shared_ptr<const Report> last_report_;
  std::string dumped_;
};

}  // namespace poolscope
