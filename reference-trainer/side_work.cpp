#include "reference-trainer/side_work.h"

#include <cmath>

#include "reference-trainer/timing.h"

namespace poolscope::trainer {

SideWork::SideWork(const SideWorkOptions& options, bool emulated, DataLoader* loader)
    : options_(options),
      emulated_(emulated),
      loader_(loader),
      name_(poolscope_name(SideWorkName(options.kind))) {}

bool SideWork::Do(Device& device, OpenWait& wait) {
  const auto slice = [&](double seconds, const std::function<void()>& math) {
    wait.End();
    device.AwaitTurn(seconds);
    poolscope_begin(POOLSCOPE_OTHER_WORK, name_);
    const int64_t end_ns = NowNs() + std::llround(seconds * 1e9);
    device.Run(seconds, [&] {
      if (math) math();
      if (emulated_) return;
      if (loader_) SleepUntilNs(end_ns);  // as the loader's own threads do
      while (NowNs() < end_ns) {
      }
    });
    poolscope_end();
    ++slices_;
  };
  if (loader_) return loader_->PrepareSlice(options_.slice_seconds, slice);
  slice(options_.slice_seconds, {});
  return true;
}

}  // namespace poolscope::trainer
