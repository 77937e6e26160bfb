#pragma once

#include <string>
#include <vector>

#include "trace/result.h"

namespace poolscope {

// Which variables make a job's libraries load the agent, and what is not seen without each.
struct LoadingVariable {
  const char* name;
  const char* unseen;
};
const std::vector<LoadingVariable>& LoadingVariables();

// Where the agent stands beside this program, "" where it does not.
std::string AgentPath();

// 32 random hex digits.
std::string NewRunId();

// POOLSCOPE_RUN_ID, which whoever started this has set so that several hosts or commands are one
// run; else a new one. Error: what is set is no id.
Result<std::string> RunId();

// The variable's value where it names something other than `agent`: the user's own, which is kept.
// "" else.
std::string ForeignValue(const LoadingVariable& variable, const std::string& agent);

// One line for each variable that is the user's own: what it is, and what will not be seen.
std::vector<std::string> ForeignNotes(const std::string& agent);

// Sets all that are not the user's own.
void SetLoadingVariables(const std::string& agent);

}  // namespace poolscope
