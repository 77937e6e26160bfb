#include "viewer/panels/batch.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace poolscope {

void Hatch(ImDrawList* list, float x0, float y0, float x1, float y1, float step, Colour colour) {
  const float height = y1 - y0;
  if (x1 - x0 < 2 || height < 2) return;
  // Cut by hand: a clip rectangle would cost a draw call each.
  for (float x = x0 - height + step / 2; x < x1; x += step) {
    const float cut_left = std::max(0.0f, x0 - x);
    const float cut_right = std::max(0.0f, x + height - x1);
    list->AddLine(ImVec2(x + cut_left, y1 - cut_left),
                  ImVec2(x + height - cut_right, y0 + cut_right), colour, 1);
  }
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
  if (length < 4) return {};
  return text.substr(0, length) + "\xe2\x80\xa6";
}

std::vector<std::string> WrapText(ImFont* font, const std::string& text, float width,
                                  size_t max_lines) {
  std::vector<std::string> lines;
  std::string line;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    const std::string longer = line.empty() ? word : line + " " + word;
    if (!line.empty() && TextWidth(font, longer) > width) {
      if (lines.size() + 1 == max_lines) {
        lines.push_back(FitText(font, line + " " + text.substr(at), width));
        return lines;
      }
      lines.push_back(line);
      line = word;
    } else {
      line = longer;
    }
    at = end + 1;
  }
  if (!line.empty()) lines.push_back(FitText(font, line, width));
  return lines;
}

void Paragraph(const std::string& text, Colour colour, float room_right) {
  ImFont* font = ImGui::GetFont();
  const float width = ImGui::GetContentRegionAvail().x - room_right;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float height = std::floor(font->FontSize * 1.2f);
  float y = at.y;
  for (const std::string& line : WrapText(font, text, width)) {
    Text(ImGui::GetWindowDrawList(), font, at.x, y, colour, line);
    y += height;
  }
  ImGui::Dummy(ImVec2(std::max(1.0f, width), std::max(1.0f, y - at.y)));
}

void Text(ImDrawList* list, ImFont* font, float x, float y, Colour colour,
          const std::string& text) {
  if (text.empty()) return;
  list->AddText(font, font->FontSize, ImVec2(std::floor(x), std::floor(y)), colour, text.data(),
                text.data() + text.size());
}

}  // namespace poolscope
