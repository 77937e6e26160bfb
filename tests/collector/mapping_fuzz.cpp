// Any bytes as a mapping: it is one, or an error of one line that names the file.
#include <cstdlib>

#include "collector/mapping.h"

// Facts of processes are stored and loaded, but not by what is fuzzed: no store is linked.
namespace poolscope {
Result<std::vector<ProcessFactRow>> Store::ProcessFacts(const std::string&) const { std::abort(); }
Status Store::Put(const ProcessFactRow&) { std::abort(); }
}  // namespace poolscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poolscope;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto mapping = Mapping::Parse(text, "fuzz.toml");
  if (!mapping.ok()) {
    const std::string& message = mapping.error().message;
    if (!message.starts_with("fuzz.toml") || message.find('\n') != std::string::npos) {
      __builtin_trap();
    }
    return 0;
  }
  const ProcessFacts process("python train.py", "host");
  const Lane lane{LaneKind::kDeviceStream, 1, 7, ""};
  (void)mapping->MatchWorkers({"compute/1", process, {}});
  (void)mapping->MatchWorkers({"device 1 stream 7", process, lane});
  (void)mapping->MatchRange({"", "", "forward", "compute/1", "compute", ""});
  return 0;
}
