// The part of WindowBuilder that says which state an activity is.
#include "collector/windows.h"
#include "store/meaning.h"

namespace poolscope {

StateInterval WindowBuilder::StateOf(const Activity& activity, bool discarded, bool open) const {
  const RunModel::Worker* worker =
      activity.worker < 0 ? nullptr : &model_.workers()[static_cast<size_t>(activity.worker)];
  Doing doing{.category = activity.category, .stage = activity.stage, .discarded = discarded};
  doing.stage_known = !open || activity.source != kNoValue;
  doing.sends = activity.link >= 0 && worker != nullptr &&
                model_.links()[static_cast<size_t>(activity.link)].from_pool == worker->pool;
  doing.feeds_device = !activity.on_device && worker != nullptr && worker->on_device();
  return {activity.begin_ns, activity.end_ns, poolscope::StateOf(doing), activity.link};
}

}  // namespace poolscope
