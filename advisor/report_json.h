#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "advisor/report.h"

namespace poolscope {

// Field `memory` of a recommendation and of a what-if's prediction (docs/report.md).
nlohmann::ordered_json MemoryAsJson(const std::vector<MemoryEstimate>& memory);

}  // namespace poolscope
