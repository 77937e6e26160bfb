#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collector/activity.h"

namespace poolscope {

// The depth of one link from the samples of its counter. Every source (a process) samples the depth
// of its own buffers; the link's is their sum, of each source's newest value.
class LinkDepth {
 public:
  struct Window {
    double mean = 0;  // time-weighted
    double max = 0;
  };

  void Add(const DepthSample& sample, const std::string& source) {
    sources_[source].samples.push_back(sample);
  }
  void EndSource(const std::string& source, int64_t ns);  // its buffers are gone

  // The window [begin_ns, end_ns); those before it are closed.
  Window Close(int64_t begin_ns, int64_t end_ns);

 private:
  struct Source {
    std::vector<DepthSample> samples;  // not yet closed
    double now = 0;
  };
  std::map<std::string, Source> sources_;
};

}  // namespace poolscope
