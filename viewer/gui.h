#pragma once

#include <imgui.h>

#include <deque>
#include <memory>
#include <vector>

#include "trace/result.h"
#include "viewer/input.h"

namespace poolscope {

struct Fonts {
  ImFont* text = nullptr;
  ImFont* small = nullptr;
  ImFont* bold = nullptr;
  ImFont* large = nullptr;
  ImFont* mono = nullptr;
};

// Dear ImGui over OpenGL 3, fed with our own events. One at a time; a GL context must be current
// when it is made, used and destroyed. Sizes in physical pixels, `scale` of them to a nominal one.
class Gui {
 public:
  static Result<std::unique_ptr<Gui>> Make(float scale);
  ~Gui();
  Gui(const Gui&) = delete;
  Gui& operator=(const Gui&) = delete;

  // Takes the events into ImGui's state and opens a frame.
  void Begin(const std::deque<InputEvent>& events, int width, int height, double delta_seconds);
  // A plain background, drawn below everything of this frame.
  void Fill(float x, float y, float width, float height, ImU32 colour);
  // Closes the frame and draws it into the bound framebuffer.
  void End(int width, int height);

  const Fonts& fonts() const { return fonts_; }
  float scale() const { return scale_; }

 private:
  explicit Gui(float scale) : scale_(scale) {}
  void LoadFonts();
  void SetStyle();

  struct Background {
    float x, y, width, height;
    ImU32 colour;
  };
  float scale_;
  Fonts fonts_;
  std::vector<Background> backgrounds_;
};

}  // namespace poolscope
