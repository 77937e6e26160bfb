#include "reference-trainer/gradient_sender.h"

#include <fmt/format.h>

#include "reference-trainer/timing.h"

namespace poolscope::trainer {

GradientSender::GradientSender(Job& job, size_t index, Signal& own, Signal& worker)
    : Worker(job, index, PoolRole::kCompute, own), worker_(worker), thread_([this] {
        UseFineTimers();
        poolscope_worker("compute", static_cast<unsigned>(index_), "compute");
        nvtxNameOsThreadA(static_cast<uint32_t>(syscall(SYS_gettid)),
                          fmt::format("compute/{}/send", index_).c_str());
        try {
          Run();
        } catch (const Abandoned&) {
        }
      }) {}

GradientSender::~GradientSender() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  signal_.Notify();
  thread_.join();
}

void GradientSender::Give(MessagePtr message, std::vector<float> values) {
  {
    std::lock_guard lock(mutex_);
    queue_.emplace_back(std::move(message), std::move(values));
  }
  signal_.Notify();
}

bool GradientSender::Idle() {
  std::lock_guard lock(mutex_);
  return queue_.empty() && !sending_;
}

void GradientSender::Run() {
  for (;;) {
    const uint64_t ticket = signal_.Ticket();
    std::unique_lock lock(mutex_);
    if (stopping_) return;
    if (queue_.empty()) {
      lock.unlock();
      device_->Waited();
      signal_.WaitPast(ticket);
      continue;
    }
    auto [message, values] = std::move(queue_.front());
    queue_.pop_front();
    sending_ = true;
    lock.unlock();
    Send(*job_.gradients, job_.options().gradients.codec, std::move(message),
         [&values = values] { return std::span<const float>(values); }, {});
    lock.lock();
    sending_ = false;
    lock.unlock();
    worker_.Notify();
  }
}

}  // namespace poolscope::trainer
