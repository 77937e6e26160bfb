#include "viewer/panels/batch.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace poolscope {

void Hatch(ImDrawList* list, float x0, float y0, float x1, float y1, float step, Colour colour) {
  const float height = y1 - y0;
  if (x1 - x0 < 2 || height < 2) return;
  list->PushClipRect(ImVec2(x0, y0), ImVec2(x1, y1), true);
  for (float x = x0 - height; x < x1; x += step) {
    list->AddLine(ImVec2(x, y1), ImVec2(x + height, y0), colour, 1);
  }
  list->PopClipRect();
}

float TextWidth(ImFont* font, const std::string& text) {
  return font->CalcTextSizeA(font->FontSize, FLT_MAX, 0, text.data(), text.data() + text.size()).x;
}

std::string FitText(ImFont* font, const std::string& text, float width) {
  if (width < font->FontSize) return {};
  if (TextWidth(font, text) <= width) return text;
  const float room = width - TextWidth(font, "\xe2\x80\xa6");
  const char* end = nullptr;
  font->CalcTextSizeA(font->FontSize, room, 0, text.data(), text.data() + text.size(), &end);
  auto length = static_cast<size_t>(end - text.data());
  while (length > 0 && text[length - 1] == ' ') --length;
  if (length < 2) return {};
  return text.substr(0, length) + "\xe2\x80\xa6";
}

void Text(ImDrawList* list, ImFont* font, float x, float y, Colour colour,
          const std::string& text) {
  if (text.empty()) return;
  list->AddText(font, font->FontSize, ImVec2(std::floor(x), std::floor(y)), colour, text.data(),
                text.data() + text.size());
}

}  // namespace poolscope
