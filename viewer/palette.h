#pragma once

#include <cstdint>
#include <string>

#include "store/rows.h"

namespace poolscope {

// Colours as ImGui packs them (0xAABBGGRR). After Okabe and Ito, told apart by colour-blind eyes;
// work is green to blue, waiting is warm, so that time not worked stands out.
using Colour = uint32_t;
constexpr Colour Rgb(uint32_t rgb) {
  return 0xff000000u | (rgb & 0xff) << 16 | (rgb & 0xff00) | (rgb >> 16 & 0xff);
}

namespace colour {
inline constexpr Colour kBackground = Rgb(0x15181d);
inline constexpr Colour kPanel = Rgb(0x1b1f26);
inline constexpr Colour kLane = Rgb(0x1d2129);
inline constexpr Colour kTitle = Rgb(0x262c36);
inline constexpr Colour kLine = Rgb(0x39414e);
inline constexpr Colour kText = Rgb(0xe4e7ec);
inline constexpr Colour kDim = Rgb(0x98a2b1);
inline constexpr Colour kAccent = Rgb(0x56b4e9);
inline constexpr Colour kSelection = Rgb(0xffffff);
}  // namespace colour

Colour StateColour(State state);
const char* StateLabel(State state);  // as a person reads it: "waits for link"
// States that are drawn with a hatch, so that colour does not carry the meaning alone.
bool StateHatched(State state);

// `link_index` counts the run's links; a link keeps its colour everywhere.
Colour LinkColour(size_t link_index);
Colour WorkColour(const std::string& name);
// `category` as EventLook's (meaning.h).
Colour RangeColour(uint32_t category, const std::string& name, size_t link_index);
Colour SeverityColour(const std::string& severity);

Colour Mix(Colour a, Colour b, float share_of_b);
Colour WithAlpha(Colour colour, float alpha);
// A program's colour, lightened as far as it needs to be told from the lane it lies on.
Colour Visible(Colour colour);
// Black or white, whichever reads better on `background`.
Colour TextOn(Colour background);

}  // namespace poolscope
