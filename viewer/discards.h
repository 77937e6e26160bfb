#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "trace/event.h"

namespace poolscope {

// Work whose message was thrown away, joined to its discard mark by the mark's sender, step and
// micro-batch, as the collector's windows do.
class Discards {
 public:
  // A discard mark's fields; without a sender or micro-batch it says nothing of work.
  void Add(const std::string& sending_pool, const Event& mark,
           std::span<const uint64_t> transfer_fields);
  // Whether the work of that worker was discarded after it had ended.
  bool Has(const std::string& pool, int64_t worker, const Event& work,
           std::span<const uint64_t> work_fields) const;

 private:
  struct Mark {
    int64_t at_ns;
    uint64_t version;
  };
  using Key = std::tuple<std::string, uint64_t, uint64_t, uint64_t>;  // pool, worker, step, batch
  std::map<Key, std::vector<Mark>> marks_;
};

}  // namespace poolscope
