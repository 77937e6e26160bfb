#pragma once

#include <imgui.h>

#include <string>
#include <vector>

#include "viewer/palette.h"

namespace poolscope {

// Opaque rectangles, drawn in one reservation: per rectangle 4 vertices and 6 indices, no path.
// They go to channel 0 of a list that is split in two, whatever else is drawn to channel 1
// meanwhile.
class RectBatch {
 public:
  explicit RectBatch(ImDrawList* list) : list_(list) {}
  RectBatch(const RectBatch&) = delete;
  RectBatch& operator=(const RectBatch&) = delete;

  void Add(float x0, float y0, float x1, float y1, Colour colour) {
    rects_.push_back({x0, y0, x1, y1, colour});
    if (rects_.size() >= 4096) Flush();
  }
  void Flush() {
    if (rects_.empty()) return;
    const auto count = static_cast<int>(rects_.size());
    list_->ChannelsSetCurrent(0);
    list_->PrimReserve(count * 6, count * 4);
    for (const Rect& rect : rects_) {
      list_->PrimRect(ImVec2(rect.x0, rect.y0), ImVec2(rect.x1, rect.y1), rect.colour);
    }
    list_->ChannelsSetCurrent(1);
    rects_.clear();
  }

 private:
  struct Rect {
    float x0, y0, x1, y1;
    Colour colour;
  };
  ImDrawList* list_;
  std::vector<Rect> rects_;
};

// Diagonal lines over a rectangle.
void Hatch(ImDrawList* list, float x0, float y0, float x1, float y1, float step, Colour colour);
// `text` cut with an ellipsis to `width` pixels; "" where fewer than four letters would be left.
std::string FitText(ImFont* font, const std::string& text, float width);
// Lines of at most `width`, broken at spaces alone (ImGui also breaks "23.2" after its point). The
// last of `max_lines` is cut with an ellipsis.
std::vector<std::string> WrapText(ImFont* font, const std::string& text, float width,
                                  size_t max_lines = 100);
// The same as an item of the current window, as wide as the room there.
void Paragraph(const std::string& text, Colour colour = colour::kText, float room_right = 0);
float TextWidth(ImFont* font, const std::string& text);
void Text(ImDrawList* list, ImFont* font, float x, float y, Colour colour, const std::string& text);

}  // namespace poolscope
