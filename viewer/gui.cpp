#include "viewer/gui.h"

#include <GL/gl.h>
#include <backends/imgui_impl_opengl3.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "viewer/opaque_pass.h"
#include "viewer/palette.h"

namespace poolscope {
namespace {

constexpr const char* kFontFolders[] = {"/usr/share/fonts/truetype/dejavu/",
                                        "/usr/share/fonts/dejavu/", "/usr/share/fonts/TTF/"};
// Latin, Greek, dashes and quotes, arrows, mathematical signs, shapes.
constexpr ImWchar kGlyphs[] = {0x20,   0xff,   0x370,  0x3ff,  0x2010, 0x2030, 0x2190, 0x21ff,
                               0x2200, 0x22ff, 0x25a0, 0x25ff, 0x2713, 0x2717, 0};

std::string FontFile(const char* name) {
  for (const char* folder : kFontFolders) {
    std::error_code error;
    if (std::filesystem::exists(std::string(folder) + name, error)) {
      return std::string(folder) + name;
    }
  }
  return {};
}

ImVec4 Vec(Colour colour) { return ImGui::ColorConvertU32ToFloat4(colour); }

}  // namespace

Result<std::unique_ptr<Gui>> Gui::Make(float scale) {
  IMGUI_CHECKVERSION();
  ImGui::CreateContext();
  std::unique_ptr<Gui> gui(new Gui(scale));
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;  // the layout is fixed: nothing to remember between runs
  io.LogFilename = nullptr;
  io.ConfigFlags |= ImGuiConfigFlags_NoMouseCursorChange;
  const std::pair<int, int> keys[] = {{ImGuiKey_Tab, kKeyTab},
                                      {ImGuiKey_LeftArrow, kKeyLeft},
                                      {ImGuiKey_RightArrow, kKeyRight},
                                      {ImGuiKey_UpArrow, kKeyUp},
                                      {ImGuiKey_DownArrow, kKeyDown},
                                      {ImGuiKey_Home, kKeyHome},
                                      {ImGuiKey_End, kKeyEnd},
                                      {ImGuiKey_Delete, kKeyDelete},
                                      {ImGuiKey_Backspace, kKeyBackspace},
                                      {ImGuiKey_Enter, kKeyEnter},
                                      {ImGuiKey_Escape, kKeyEscape},
                                      {ImGuiKey_A, 'A'}};
  for (const auto& [imgui_key, key] : keys) io.KeyMap[imgui_key] = key;
  gui->LoadFonts();
  gui->SetStyle();
  if (!ImGui_ImplOpenGL3_Init("#version 130")) {
    return Error{"OpenGL 3 could not be started; install libgl1-mesa-dri for software drawing"};
  }
  return gui;
}

Gui::~Gui() {
  opaque_pass::Forget();
  if (ImGui::GetIO().BackendRendererUserData != nullptr) ImGui_ImplOpenGL3_Shutdown();
  ImGui::DestroyContext();
}

void Gui::LoadFonts() {
  ImFontAtlas* atlas = ImGui::GetIO().Fonts;
  const auto load = [&](const char* name, float size) {
    const std::string file = FontFile(name);
    ImFontConfig config;
    config.OversampleH = 2;
    config.OversampleV = 1;
    config.PixelSnapH = true;
    ImFont* font = file.empty()
                       ? nullptr
                       : atlas->AddFontFromFileTTF(file.c_str(), size * scale_, &config, kGlyphs);
    if (font == nullptr) {
      ImFontConfig fallback;
      fallback.SizePixels = size * scale_;
      font = atlas->AddFontDefault(&fallback);
    }
    return font;
  };
  fonts_.text = load("DejaVuSans.ttf", 13);
  fonts_.small = load("DejaVuSans.ttf", 11);
  fonts_.bold = load("DejaVuSans-Bold.ttf", 13);
  fonts_.large = load("DejaVuSans-Bold.ttf", 17);
  fonts_.mono = load("DejaVuSansMono.ttf", 12);
}

void Gui::SetStyle() {
  ImGui::StyleColorsDark();
  ImGuiStyle& style = ImGui::GetStyle();
  style.WindowRounding = 0;
  style.WindowBorderSize = 0;
  style.FrameRounding = 3;
  style.ScrollbarSize = 11;
  style.ScrollbarRounding = 5;
  style.WindowPadding = ImVec2(12, 10);
  style.ItemSpacing = ImVec2(8, 5);
  style.CellPadding = ImVec2(5, 3);
  style.AntiAliasedLines = false;
  style.AntiAliasedFill = false;
  style.Colors[ImGuiCol_WindowBg] = Vec(colour::kPanel);
  style.Colors[ImGuiCol_ChildBg] = Vec(colour::kPanel);
  style.Colors[ImGuiCol_PopupBg] = Vec(Rgb(0x232933));
  style.Colors[ImGuiCol_Text] = Vec(colour::kText);
  style.Colors[ImGuiCol_TextDisabled] = Vec(colour::kDim);
  style.Colors[ImGuiCol_Border] = Vec(colour::kLine);
  style.Colors[ImGuiCol_Separator] = Vec(colour::kLine);
  style.Colors[ImGuiCol_Header] = Vec(Rgb(0x2d3644));
  style.Colors[ImGuiCol_HeaderHovered] = Vec(Rgb(0x354052));
  style.Colors[ImGuiCol_HeaderActive] = Vec(Rgb(0x3d4a60));
  style.Colors[ImGuiCol_FrameBg] = Vec(Rgb(0x2a313c));
  style.Colors[ImGuiCol_TableHeaderBg] = Vec(colour::kTitle);
  style.Colors[ImGuiCol_TableBorderLight] = Vec(Rgb(0x2a303a));
  style.ScaleAllSizes(scale_);
}

void Gui::Begin(const std::deque<InputEvent>& events, int width, int height, double delta_seconds) {
  ImGuiIO& io = ImGui::GetIO();
  io.DisplaySize = ImVec2(static_cast<float>(width), static_cast<float>(height));
  io.DeltaTime = static_cast<float>(std::clamp(delta_seconds, 1e-4, 0.25));
  for (const InputEvent& event : events) {
    switch (event.kind) {
      case InputEvent::Kind::kMove:
        io.MousePos = ImVec2(event.x, event.y);
        break;
      case InputEvent::Kind::kLeave:
        io.MousePos = ImVec2(-1e9f, -1e9f);
        break;
      case InputEvent::Kind::kButton:
        io.MousePos = ImVec2(event.x, event.y);
        if (event.code >= 0 && event.code < 3) io.MouseDown[event.code] = event.down;
        break;
      case InputEvent::Kind::kWheel:
        io.MouseWheel += event.dy;
        io.MouseWheelH += event.dx;
        break;
      case InputEvent::Kind::kKey:
        if (event.code >= 0 && event.code < kKeyCount) io.KeysDown[event.code] = event.down;
        io.KeyCtrl = event.control;
        io.KeyShift = event.shift;
        break;
      case InputEvent::Kind::kCharacter:
        io.AddInputCharacter(static_cast<unsigned>(event.code));
        break;
    }
  }
  ImGui_ImplOpenGL3_NewFrame();
  ImGui::NewFrame();
}

void Gui::Fill(float x, float y, float width, float height, ImU32 colour) {
  backgrounds_.push_back({x, y, width, height, colour});
}

void Gui::End(int width, int height) {
  ImGui::Render();
  glViewport(0, 0, width, height);
  const auto clear = [](Colour colour) {
    const ImVec4 value = Vec(colour);
    glClearColor(value.x, value.y, value.z, 1);
    glClear(GL_COLOR_BUFFER_BIT);
  };
  glDisable(GL_SCISSOR_TEST);
  clear(colour::kBackground);
  glEnable(GL_SCISSOR_TEST);
  for (const Background& area : backgrounds_) {
    glScissor(static_cast<int>(area.x), height - static_cast<int>(area.y + area.height),
              static_cast<int>(area.width), static_cast<int>(area.height));
    clear(area.colour);
  }
  glDisable(GL_SCISSOR_TEST);
  backgrounds_.clear();
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
}

}  // namespace poolscope
