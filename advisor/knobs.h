#pragma once

#include <map>
#include <string>
#include <vector>

#include "advisor/model.h"
#include "trace/result.h"

// The knobs of the what-if: names of pools and links of the run, then what changes.
namespace poolscope {

using Changes = std::map<std::string, std::string>;  // knob -> value

std::vector<std::string> KnobNames(const Model& model);

// The model with the changes made. Error: unknown knob (names the known ones), bad value.
Result<Model> WithChanges(const Model& model, const Changes& changes);

std::string KnobValue(const Model& model, const std::string& knob);  // now; "" where unknown

// "compute 8 -> 10, update 4 -> 2": knobs that really differ.
std::string DescribeChanges(const Model& model, const Changes& changes);
// The reference trainer's flags for the same.
std::string ApplyFlags(const Model& model, const Changes& changes);
// "lossless", "reduced precision" or "changes training".
std::string ClassOf(const Changes& changes);

}  // namespace poolscope
