#include "reference-trainer/device.h"

#include <poolscope/annotate.h>

#include <algorithm>
#include <cmath>

#include "reference-trainer/timing.h"

namespace poolscope::trainer {
namespace {

// A late wake-up is made up for by the next operation, up to half of that, and up to this: beyond
// it the machine was stopped.
constexpr int64_t kMaxMadeUpNs = 2'000'000;

}  // namespace

void Device::Launch(Operation operation) {
  AtStep(operation.work.step);
  AwaitTurn(operation.seconds);
  poolscope_begin(POOLSCOPE_WORK, operation.name);
  operation.work.cpu_ns = Run(operation.seconds, operation.math);
  poolscope_end_work(&operation.work);
}

Drained::~Drained() {
  try {
    device_.Synchronize();
  } catch (...) {  // whoever leaves the scope has a better reason
  }
}

uint64_t RemoteDevice::Run(double, const std::function<void()>& math) {
  if (math) math();
  return POOLSCOPE_NO_VALUE;
}

uint64_t CpuDevice::Run(double, const std::function<void()>& math) {
  const uint64_t before = ThreadCpuNs();
  if (math) math();
  return ThreadCpuNs() - before;
}

void EmulatedDevice::AwaitTurn(double seconds) {
  const int64_t now = NowNs();
  if (jitter_ > 0) seconds *= std::max(0.1, 1 + jitter_ * normal_(random_));
  const auto duration_ns = static_cast<int64_t>(std::llround(seconds * 1e9));
  int64_t start = now;
  if (deadline_ns_ != 0) {
    start = std::max(deadline_ns_, now - std::min(kMaxMadeUpNs, duration_ns / 2));
  }
  if (turns_ && duration_ns > 0) {
    start = turns_->Take(start, duration_ns);
    if (start > now) {
      static const nvtxStringHandle_t name = poolscope_name("device");
      poolscope_begin(POOLSCOPE_WAIT_DEVICE, name);
      SleepUntilNs(start);
      poolscope_end();
    }
  }
  deadline_ns_ = start + duration_ns;
  has_turn_ = true;
}

uint64_t EmulatedDevice::Run(double seconds, const std::function<void()>& math) {
  if (!has_turn_) AwaitTurn(seconds);
  has_turn_ = false;
  if (math) math();
  if (NowNs() < deadline_ns_) SleepUntilNs(deadline_ns_);
  return POOLSCOPE_NO_VALUE;
}

}  // namespace poolscope::trainer
