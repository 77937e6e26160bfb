#pragma once

#include <filesystem>
#include <memory>

#include "trace/result.h"

namespace poolscope {

// A framebuffer in memory, drawn by whatever OpenGL there is without a display (surfaceless EGL;
// Mesa's software renderer at the least). Its context is current from Make until destruction.
class Offscreen {
 public:
  static Result<std::unique_ptr<Offscreen>> Make(int width, int height);
  ~Offscreen();
  Offscreen(const Offscreen&) = delete;
  Offscreen& operator=(const Offscreen&) = delete;

  void Finish();  // waits until all is drawn
  Status WritePng(const std::filesystem::path& path);

 private:
  Offscreen() = default;
  struct Egl;
  std::unique_ptr<Egl> egl_;
  int width_ = 0, height_ = 0;
  unsigned framebuffer_ = 0, texture_ = 0;
};

}  // namespace poolscope
