#pragma once

#include <atomic>
#include <cstdint>

#include "reference-trainer/annotations.h"
#include "reference-trainer/data_loader.h"
#include "reference-trainer/device.h"

namespace poolscope::trainer {

// What the workers of a pool do in place of waiting, slice by slice. Any thread may call.
class SideWork {
 public:
  // `loader`: whose micro-batches are prepared; null: the work is synthetic.
  SideWork(const SideWorkOptions& options, bool emulated, DataLoader* loader);

  // One slice, on `device`, as other work of the calling worker; ends `wait` before. False: there
  // is nothing to do now.
  bool Do(Device& device, OpenWait& wait);

  uint64_t slices() const { return slices_; }  // done so far

 private:
  const SideWorkOptions options_;
  const bool emulated_;
  DataLoader* const loader_;
  const nvtxStringHandle_t name_;
  std::atomic<uint64_t> slices_ = 0;
};

}  // namespace poolscope::trainer
