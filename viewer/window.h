#pragma once

#include <functional>

#include "trace/result.h"
#include "viewer/app.h"

namespace poolscope {

// Lets other threads wake the window while there is one. Safe from any thread.
class Waker {
 public:
  void Wake();
  void Connect(std::function<void()> wake);  // an empty function disconnects

 private:
  std::mutex mutex_;
  std::function<void()> wake_;
};

// Opens a window and draws `app` until it is closed: only after input, news from the model (through
// `waker`), or while something moves. Error: no display, no OpenGL 3.
Status RunWindow(App& app, Waker& waker, const std::string& title, int width, int height,
                 float scale);

}  // namespace poolscope
