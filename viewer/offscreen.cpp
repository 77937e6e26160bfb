#include "viewer/offscreen.h"

#define EGL_NO_X11
#define GL_GLEXT_PROTOTYPES
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GL/gl.h>
#include <GL/glext.h>
#include <fmt/format.h>
#include <png.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "store/output_file.h"

namespace poolscope {

struct Offscreen::Egl {
  EGLDisplay display = EGL_NO_DISPLAY;
  EGLContext context = EGL_NO_CONTEXT;
};

Result<std::unique_ptr<Offscreen>> Offscreen::Make(int width, int height) {
  std::unique_ptr<Offscreen> out(new Offscreen);
  out->width_ = width;
  out->height_ = height;
  out->egl_ = std::make_unique<Egl>();
  const auto failed = [](const char* what) {
    return Error{
        fmt::format("drawing without a display: {} failed (EGL error {:#x}); install "
                    "libegl1 and libgl1-mesa-dri",
                    what, eglGetError())};
  };
  out->egl_->display =
      eglGetPlatformDisplay(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr);
  if (out->egl_->display == EGL_NO_DISPLAY) return failed("eglGetPlatformDisplay");
  if (!eglInitialize(out->egl_->display, nullptr, nullptr)) return failed("eglInitialize");
  if (!eglBindAPI(EGL_OPENGL_API)) return failed("eglBindAPI");
  const EGLint config_attributes[] = {EGL_SURFACE_TYPE, EGL_PBUFFER_BIT, EGL_RENDERABLE_TYPE,
                                      EGL_OPENGL_BIT, EGL_NONE};
  EGLConfig config = nullptr;
  EGLint configs = 0;
  if (!eglChooseConfig(out->egl_->display, config_attributes, &config, 1, &configs) ||
      configs < 1) {
    return failed("eglChooseConfig");
  }
  const EGLint context_attributes[] = {EGL_CONTEXT_MAJOR_VERSION, 3, EGL_CONTEXT_MINOR_VERSION, 2,
                                       EGL_NONE};
  out->egl_->context =
      eglCreateContext(out->egl_->display, config, EGL_NO_CONTEXT, context_attributes);
  if (out->egl_->context == EGL_NO_CONTEXT) return failed("eglCreateContext");
  if (!eglMakeCurrent(out->egl_->display, EGL_NO_SURFACE, EGL_NO_SURFACE, out->egl_->context)) {
    return failed("eglMakeCurrent");
  }
  glGenTextures(1, &out->texture_);
  glBindTexture(GL_TEXTURE_2D, out->texture_);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, width, height, 0, GL_RGBA, GL_UNSIGNED_BYTE, nullptr);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glGenFramebuffers(1, &out->framebuffer_);
  glBindFramebuffer(GL_FRAMEBUFFER, out->framebuffer_);
  glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, out->texture_, 0);
  if (glCheckFramebufferStatus(GL_FRAMEBUFFER) != GL_FRAMEBUFFER_COMPLETE) {
    return Error{
        fmt::format("a picture of {}x{} pixels is more than OpenGL can draw here; ask for "
                    "a smaller --size",
                    width, height)};
  }
  return out;
}

Offscreen::~Offscreen() {
  if (egl_ == nullptr || egl_->display == EGL_NO_DISPLAY) return;
  if (framebuffer_ != 0) glDeleteFramebuffers(1, &framebuffer_);
  if (texture_ != 0) glDeleteTextures(1, &texture_);
  eglMakeCurrent(egl_->display, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
  if (egl_->context != EGL_NO_CONTEXT) eglDestroyContext(egl_->display, egl_->context);
  eglTerminate(egl_->display);
}

void Offscreen::Finish() { glFinish(); }

Status Offscreen::WritePng(const std::filesystem::path& path) {
  const size_t stride = static_cast<size_t>(width_) * 3;
  std::vector<uint8_t> pixels(stride * static_cast<size_t>(height_));
  glPixelStorei(GL_PACK_ALIGNMENT, 1);
  glReadPixels(0, 0, width_, height_, GL_RGB, GL_UNSIGNED_BYTE, pixels.data());
  png_image image;
  std::memset(&image, 0, sizeof(image));
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width_);
  image.height = static_cast<png_uint_32>(height_);
  image.format = PNG_FORMAT_RGB;
  // OpenGL's rows go from the bottom up: a negative stride turns them.
  const auto row_stride = -static_cast<png_int_32>(stride);
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string png(bytes, '\0');
  if (png_image_write_to_memory(&image, png.data(), &bytes, 0, pixels.data(), row_stride,
                                nullptr) == 0) {
    return Error{fmt::format("the screenshot could not be made: {}", image.message)};
  }
  return WriteOutputFile(path, std::string_view(png).substr(0, bytes));
}

}  // namespace poolscope
