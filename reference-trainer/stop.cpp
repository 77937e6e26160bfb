#include "reference-trainer/stop.h"

#include <csignal>

namespace poolscope::trainer {
namespace {

volatile std::sig_atomic_t g_signal = 0;

extern "C" void KeepSignal(int signal) {
  g_signal = signal;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

void WatchStopSignals() {
  struct sigaction action {};
  action.sa_handler = KeepSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int StopSignal() { return g_signal; }

}  // namespace poolscope::trainer
