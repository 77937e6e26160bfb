#pragma once

#include <cstdint>
#include <string>

#include "viewer/panels/panel.h"
#include "viewer/view.h"

namespace poolscope {

// The view as JSON, for a test that drives the window from outside: span, selection, panel, what is
// in sight and where it was drawn (pixels of the window).
std::string StateAsJson(const View& view, const PanelContext& context, bool settled);
// Replaces `file` at once, so that a reader never sees half of it. Failing is silent: a test waits.
void WriteState(const std::string& file, const std::string& state, uint64_t frames);

}  // namespace poolscope
