#include "reference-trainer/host_fed_device.h"

#include <string>
#include <utility>

#include "reference-trainer/timing.h"

namespace poolscope::trainer {

HostFedDevice::HostFedDevice(std::unique_ptr<Device> device, const HostOptions& host,
                             const WorkerName& worker)
    : device_(std::move(device)), host_(host), thread_([this, worker] { Work(worker); }) {}

HostFedDevice::~HostFedDevice() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

uint64_t HostFedDevice::Run(double seconds, const std::function<void()>& math) {
  Synchronize();
  const uint64_t cpu_ns = device_->Run(seconds, math);
  device_->Waited();  // what is launched next comes a launch later
  return cpu_ns;
}

void HostFedDevice::Launch(Operation operation) {
  poolscope_begin(POOLSCOPE_HOST, operation.name);
  host_clock_.Run(host_.seconds, {});
  poolscope_end();
  {
    std::unique_lock lock(mutex_);
    while (host_.ahead > 0 && queue_.size() >= host_.ahead) {
      changed_.wait(lock);
      host_clock_.Waited();
    }
    queue_.push_back(std::move(operation));
  }
  changed_.notify_all();
  if (host_.ahead == 0) Synchronize();
}

void HostFedDevice::Synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() && !running_; });
  host_clock_.Waited();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void HostFedDevice::Work(const WorkerName& worker) {
  UseFineTimers();
  poolscope_worker(worker.pool.c_str(), static_cast<unsigned>(worker.index), worker.pool.c_str());
  const std::string name = worker.pool + "/" + std::to_string(worker.index) + "/device";
  nvtxNameOsThreadA(static_cast<uint32_t>(syscall(SYS_gettid)), name.c_str());
  std::unique_lock lock(mutex_);
  for (;;) {
    if (queue_.empty()) {
      if (stopping_) return;
      device_->Waited();  // the next operation does not follow the last one
      changed_.wait(lock);
      continue;
    }
    Operation operation = std::move(queue_.front());
    queue_.pop_front();
    running_ = true;
    lock.unlock();
    changed_.notify_all();
    std::exception_ptr error;
    try {
      device_->Launch(std::move(operation));
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    running_ = false;
    if (error && !error_) error_ = error;
    changed_.notify_all();
  }
}

}  // namespace poolscope::trainer
