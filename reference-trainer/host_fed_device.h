#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "reference-trainer/device.h"
#include "reference-trainer/options_host.h"
#include "reference-trainer/options_slowness.h"

namespace poolscope::trainer {

// An emulated device that its worker's thread must feed. Launching an operation is host work of
// stated time; the device, a thread of the same worker, takes operations from a queue. Where the
// host is ahead the two overlap; where it is not, the device runs empty.
class HostFedDevice : public Device {
 public:
  HostFedDevice(std::unique_ptr<Device> device, const HostOptions& host, const WorkerName& worker);
  ~HostFedDevice() override;  // after all that was launched
  HostFedDevice(const HostFedDevice&) = delete;
  HostFedDevice& operator=(const HostFedDevice&) = delete;

  uint64_t Run(double seconds, const std::function<void()>& math) override;
  void Launch(Operation operation) override;
  void Synchronize() override;
  void Waited() override { host_clock_.Waited(); }

 private:
  void Work(const WorkerName& worker);

  const std::unique_ptr<Device> device_;  // the device's thread's; anybody's when synchronized
  const HostOptions host_;
  EmulatedDevice host_clock_{0, 0};  // the worker's thread's

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::deque<Operation> queue_;
  bool running_ = false;
  bool stopping_ = false;
  std::exception_ptr error_;  // of an operation's math
  std::thread thread_;
};

}  // namespace poolscope::trainer
