#include "viewer/window.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

#include <atomic>
#include <chrono>

namespace poolscope {
namespace {

// What GLFW's callbacks write and the loop reads; all on the main thread but `woken`.
struct Platform {
  InputQueue input;
  bool dirty = true;  // the window was uncovered or resized
  std::atomic<bool> woken{false};
  float cursor_x = -1, cursor_y = -1;
  float ratio_x = 1, ratio_y = 1;  // framebuffer pixels per window unit
  bool shift = false, control = false;
};

Platform& PlatformOf(GLFWwindow* window) {
  return *static_cast<Platform*>(glfwGetWindowUserPointer(window));
}

int KeyOf(int key) {
  if (key >= 32 && key < 127) return key;  // GLFW's printable keys are upper-case ASCII
  switch (key) {
    case GLFW_KEY_ESCAPE:
      return kKeyEscape;
    case GLFW_KEY_ENTER:
    case GLFW_KEY_KP_ENTER:
      return kKeyEnter;
    case GLFW_KEY_BACKSPACE:
      return kKeyBackspace;
    case GLFW_KEY_DELETE:
      return kKeyDelete;
    case GLFW_KEY_TAB:
      return kKeyTab;
    case GLFW_KEY_LEFT:
      return kKeyLeft;
    case GLFW_KEY_RIGHT:
      return kKeyRight;
    case GLFW_KEY_UP:
      return kKeyUp;
    case GLFW_KEY_DOWN:
      return kKeyDown;
    case GLFW_KEY_HOME:
      return kKeyHome;
    case GLFW_KEY_END:
      return kKeyEnd;
    case GLFW_KEY_PAGE_UP:
      return kKeyPageUp;
    case GLFW_KEY_PAGE_DOWN:
      return kKeyPageDown;
    default:
      return -1;
  }
}

InputEvent At(const Platform& platform, InputEvent::Kind kind) {
  InputEvent event;
  event.kind = kind;
  event.x = platform.cursor_x;
  event.y = platform.cursor_y;
  event.shift = platform.shift;
  event.control = platform.control;
  return event;
}

void ListenTo(GLFWwindow* window) {
  glfwSetKeyCallback(window, [](GLFWwindow* w, int key, int, int action, int mods) {
    Platform& platform = PlatformOf(w);
    platform.shift = (mods & GLFW_MOD_SHIFT) != 0;
    platform.control = (mods & GLFW_MOD_CONTROL) != 0;
    InputEvent event = At(platform, InputEvent::Kind::kKey);
    event.code = KeyOf(key);
    event.down = action != GLFW_RELEASE;
    event.repeat = action == GLFW_REPEAT;
    if (event.code >= 0) platform.input.Push(event);
  });
  glfwSetCharCallback(window, [](GLFWwindow* w, unsigned code) {
    InputEvent event = At(PlatformOf(w), InputEvent::Kind::kCharacter);
    event.code = static_cast<int>(code);
    PlatformOf(w).input.Push(event);
  });
  glfwSetCursorPosCallback(window, [](GLFWwindow* w, double x, double y) {
    Platform& platform = PlatformOf(w);
    platform.cursor_x = static_cast<float>(x) * platform.ratio_x;
    platform.cursor_y = static_cast<float>(y) * platform.ratio_y;
    platform.input.Push(At(platform, InputEvent::Kind::kMove));
  });
  glfwSetCursorEnterCallback(window, [](GLFWwindow* w, int entered) {
    if (!entered) PlatformOf(w).input.Push(At(PlatformOf(w), InputEvent::Kind::kLeave));
  });
  glfwSetMouseButtonCallback(window, [](GLFWwindow* w, int button, int action, int mods) {
    Platform& platform = PlatformOf(w);
    platform.shift = (mods & GLFW_MOD_SHIFT) != 0;
    platform.control = (mods & GLFW_MOD_CONTROL) != 0;
    InputEvent event = At(platform, InputEvent::Kind::kButton);
    event.code = button;
    event.down = action == GLFW_PRESS;
    platform.input.Push(event);
  });
  glfwSetScrollCallback(window, [](GLFWwindow* w, double dx, double dy) {
    InputEvent event = At(PlatformOf(w), InputEvent::Kind::kWheel);
    event.dx = static_cast<float>(dx);
    event.dy = static_cast<float>(dy);
    event.shift = event.shift || glfwGetKey(w, GLFW_KEY_LEFT_SHIFT) == GLFW_PRESS ||
                  glfwGetKey(w, GLFW_KEY_RIGHT_SHIFT) == GLFW_PRESS;
    PlatformOf(w).input.Push(event);
  });
  glfwSetWindowRefreshCallback(window, [](GLFWwindow* w) { PlatformOf(w).dirty = true; });
  glfwSetFramebufferSizeCallback(window,
                                 [](GLFWwindow* w, int, int) { PlatformOf(w).dirty = true; });
}

struct GlfwSession {
  GLFWwindow* window = nullptr;
  ~GlfwSession() {
    if (window != nullptr) glfwDestroyWindow(window);
    glfwTerminate();
  }
};

}  // namespace

void Waker::Wake() {
  const std::lock_guard lock(mutex_);
  if (wake_) wake_();
}

void Waker::Connect(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

Status RunWindow(App& app, Waker& waker, const std::string& title, int width, int height,
                 float scale) {
  if (!glfwInit()) {
    return Error{
        "no display to open a window on: use `poolscope view STORE --screenshot F.png`, "
        "which works without one"};
  }
  GlfwSession session;
  glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 2);
  glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
  session.window = glfwCreateWindow(width, height, title.c_str(), nullptr, nullptr);
  if (session.window == nullptr) {
    return Error{
        "this display has no OpenGL 3.2: use `poolscope view STORE --screenshot F.png`, "
        "or install libgl1-mesa-dri for software drawing"};
  }
  GLFWwindow* window = session.window;
  Platform platform;
  glfwSetWindowUserPointer(window, &platform);
  ListenTo(window);
  glfwMakeContextCurrent(window);
  glfwSwapInterval(1);
  if (scale <= 0) {
    float scale_y = 1;
    glfwGetWindowContentScale(window, &scale, &scale_y);
    if (scale <= 0) scale = 1;
  }
  Result<std::unique_ptr<Gui>> gui = Gui::Make(scale);
  if (!gui) return gui.error();
  waker.Connect([&platform] {
    platform.woken = true;
    glfwPostEmptyEvent();
  });
  double last = glfwGetTime();
  while (!glfwWindowShouldClose(window)) {
    if (app.restless() || !platform.input.empty()) {
      glfwPollEvents();
    } else {
      glfwWaitEventsTimeout(1.0);
    }
    const bool woken = platform.woken.exchange(false);
    if (!app.restless() && platform.input.empty() && !woken && !platform.dirty) continue;
    platform.dirty = false;
    int w = 0;
    int h = 0;
    int window_w = 0;
    int window_h = 0;
    glfwGetFramebufferSize(window, &w, &h);
    glfwGetWindowSize(window, &window_w, &window_h);
    if (w <= 0 || h <= 0) continue;  // minimised
    if (window_w > 0 && window_h > 0) {
      platform.ratio_x = static_cast<float>(w) / static_cast<float>(window_w);
      platform.ratio_y = static_cast<float>(h) / static_cast<float>(window_h);
    }
    const double now = glfwGetTime();
    const std::deque<InputEvent> events = platform.input.TakeFrame();
    (*gui)->Begin(events, w, h, now - last);
    last = now;
    app.Frame(events, **gui, w, h);
    (*gui)->End(w, h);
    glfwSwapBuffers(window);
  }
  waker.Connect({});
  gui->reset();
  return {};
}

}  // namespace poolscope
