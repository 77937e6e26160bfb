#include <algorithm>

#include "viewer/panels/batch.h"
#include "viewer/panels/panel.h"

namespace poolscope {

void DrawLegend(PanelContext& context, const PanelRect& rect) {
  ImDrawList* list = ImGui::GetBackgroundDrawList();
  const float scale = context.scale();
  const Fonts& fonts = context.gui->fonts();
  context.gui->Fill(rect.x, rect.y, rect.width, rect.height, colour::kPanel);
  list->AddLine(ImVec2(rect.x, rect.y), ImVec2(rect.x + rect.width, rect.y), colour::kLine);
  float x = rect.x + 14 * scale;
  const float box = 10 * scale;
  const float text_y = rect.y + (rect.height - fonts.small->FontSize) / 2 - scale;
  const float box_y = rect.y + (rect.height - box) / 2;
  const std::string keys = "W S zoom   A D pan   F fit   / search   ? help";
  const float keys_x = rect.x + rect.width - TextWidth(fonts.small, keys) - 12 * scale;
  for (const State state : {State::kBusy, State::kWaitLink, State::kBlockedLink, State::kWaitCredit,
                            State::kWaitPeer, State::kBusyDiscarded, State::kHostBound,
                            State::kInput, State::kOtherWork, State::kIdle, State::kUnknown}) {
    const std::string label = StateLabel(state);
    const float width = box + 5 * scale + TextWidth(fonts.small, label) + 14 * scale;
    if (x + width > keys_x) break;
    list->AddRectFilled(ImVec2(x, box_y), ImVec2(x + box, box_y + box), StateColour(state));
    if (StateHatched(state)) {
      Hatch(list, x, box_y, x + box, box_y + box, 5 * scale, WithAlpha(Rgb(0x000000), 0.45f));
    }
    Text(list, fonts.small, x + box + 5 * scale, text_y, colour::kText, label);
    x += width;
  }
  Text(list, fonts.small, keys_x, text_y, colour::kDim, keys);
}

}  // namespace poolscope
