#include "viewer/palette.h"

#include <array>

#include "trace/event.h"
#include "viewer/meaning.h"

namespace poolscope {
namespace {

// Brightness from 0 to 255 (ITU-R BT.601).
float Luma(Colour colour) {
  return 0.299f * static_cast<float>(colour & 0xff) +
         0.587f * static_cast<float>(colour >> 8 & 0xff) +
         0.114f * static_cast<float>(colour >> 16 & 0xff);
}

}  // namespace

Colour StateColour(State state) {
  switch (state) {
    case State::kUnknown:
      return Rgb(0x6b6f76);
    case State::kBusy:
      return Rgb(0x009e73);
    case State::kBusyDiscarded:
      return Rgb(0x7fb8a4);
    case State::kBlockedLink:
      return Rgb(0xd55e00);
    case State::kWaitCredit:
      return Rgb(0xcc79a7);
    case State::kWaitLink:
      return Rgb(0xe69f00);
    case State::kWaitPeer:
      return Rgb(0x0072b2);
    case State::kHostBound:
      return Rgb(0x8f83c9);
    case State::kInput:
      return Rgb(0xf0e442);
    case State::kOtherWork:
      return Rgb(0x8a97a8);
    case State::kIdle:
    case State::kCount:
      break;
  }
  return Rgb(0x3a424f);
}

const char* StateLabel(State state) {
  switch (state) {
    case State::kUnknown:
      return "unknown";
    case State::kBusy:
      return "busy";
    case State::kBusyDiscarded:
      return "busy, discarded";
    case State::kBlockedLink:
      return "blocked by full link";
    case State::kWaitCredit:
      return "waits for credit";
    case State::kWaitLink:
      return "waits for link";
    case State::kWaitPeer:
      return "waits for peer";
    case State::kHostBound:
      return "host bound";
    case State::kInput:
      return "input";
    case State::kOtherWork:
      return "other work";
    case State::kIdle:
    case State::kCount:
      break;
  }
  return "idle";
}

bool StateHatched(State state) {
  return state == State::kUnknown || state == State::kBusyDiscarded ||
         state == State::kBlockedLink || state == State::kWaitCredit;
}

Colour LinkColour(size_t link_index) {
  static constexpr std::array<Colour, 5> kLinks = {Rgb(0x56b4e9), Rgb(0xb79ae8), Rgb(0xf0e442),
                                                   Rgb(0xf28e8e), Rgb(0xa6d854)};
  return kLinks[link_index % kLinks.size()];
}

Colour WorkColour(const std::string& name) {
  static constexpr std::array<Colour, 6> kWork = {Rgb(0x2ba37f), Rgb(0x1d7f9c), Rgb(0x4c78d0),
                                                  Rgb(0x5fa8a0), Rgb(0x3c8d5a), Rgb(0x6c8ebf)};
  if (name == "forward") return kWork[0];
  if (name == "backward") return kWork[1];
  if (name == "optimizer") return kWork[2];
  uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return kWork[hash % kWork.size()];
}

Colour RangeColour(uint32_t category, const std::string& name, size_t link_index) {
  if (category == kDrawnCopy) return Rgb(0xb58b5a);
  if (category == kDrawnSynchronization || category == kDrawnOverhead) return Rgb(0x5b6472);
  switch (static_cast<Category>(category)) {
    case Category::kTransfer:
      return LinkColour(link_index);
    case Category::kWaitLink:
      return StateColour(State::kWaitLink);
    case Category::kBlockedLink:
      return StateColour(State::kBlockedLink);
    case Category::kWaitCredit:
      return StateColour(State::kWaitCredit);
    case Category::kWaitPeer:
      return StateColour(State::kWaitPeer);
    case Category::kHost:
      return StateColour(State::kHostBound);
    case Category::kInput:
      return StateColour(State::kInput);
    case Category::kOtherWork:
      return StateColour(State::kOtherWork);
    case Category::kWaitDevice:
      return StateColour(State::kIdle);
    case Category::kPhase:
      return Rgb(0x4a5261);
    default:
      return WorkColour(name);
  }
}

Colour SeverityColour(const std::string& severity) {
  if (severity == "critical") return Rgb(0xd55e00);
  if (severity == "warning") return Rgb(0xe69f00);
  return Rgb(0x56b4e9);
}

Colour Mix(Colour a, Colour b, float share_of_b) {
  Colour out = 0xff000000u;
  for (const int shift : {0, 8, 16}) {
    const auto from = static_cast<float>(a >> shift & 0xff);
    const auto to = static_cast<float>(b >> shift & 0xff);
    out |= static_cast<Colour>(from + (to - from) * share_of_b + 0.5f) << shift;
  }
  return out;
}

Colour WithAlpha(Colour colour, float alpha) {
  return (colour & 0x00ffffffu) | static_cast<Colour>(alpha * 255 + 0.5f) << 24;
}

Colour Visible(Colour colour) {
  constexpr float kLeast = 75;  // a lane has 33
  const float luma = Luma(colour);
  return luma >= kLeast
             ? colour
             : Mix(colour, colour::kText, (kLeast - luma) / (Luma(colour::kText) - luma));
}

Colour TextOn(Colour background) { return Luma(background) > 118 ? Rgb(0x0c0e11) : Rgb(0xffffff); }

}  // namespace poolscope
