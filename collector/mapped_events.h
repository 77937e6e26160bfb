#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "collector/activity.h"
#include "store/store.h"

namespace poolscope {

// Writes what a mapping made of a job's events as annotated events beside them, so that whoever
// reads the store finds annotations and needs no mapping. Each carries, in a group of its own, the
// domain and name of the event that it was made of.
class MappedEvents {
 public:
  // Appends the annotated form of `from` to `batch`. `link` is the name of the activity's link.
  Status Write(Store& store, const Event& from, const Activity& activity, const std::string& link,
               EventBatch& batch);

 private:
  Result<uint32_t> Schema(Store& store, Category category);

  std::map<Category, uint32_t> schemas_;
  uint32_t origin_ = 0;
};

}  // namespace poolscope
