#pragma once

#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/rows.h"

namespace poolscope {

// The advisor on the live store, in a thread of its own with a connection of its own: it may take
// its time, the drain does not wait for it. It spends at most a tenth of a core.
class LiveAdvice {
 public:
  explicit LiveAdvice(std::filesystem::path store);
  ~LiveAdvice();
  LiveAdvice(const LiveAdvice&) = delete;
  LiveAdvice& operator=(const LiveAdvice&) = delete;

  struct Advice {
    std::string run_id;
    std::vector<FindingRow> rows;
    std::map<std::pair<std::string, std::string>, double> speedups;  // by (rule, subject)
  };
  // What was found since the last call. `live_runs` are looked at from now on.
  std::vector<Advice> Exchange(std::vector<std::string> live_runs);

 private:
  void Loop();

  const std::filesystem::path path_;
  std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  std::vector<std::string> live_runs_;
  std::vector<Advice> ready_;
  bool stop_ = false;

  std::thread thread_;
};

}  // namespace poolscope
