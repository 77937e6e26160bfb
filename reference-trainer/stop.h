#pragma once

namespace poolscope::trainer {

// From now on the first SIGINT or SIGTERM is kept for StopSignal(); a second one ends the process.
void WatchStopSignals();

// The signal that asked the run to end, or 0.
int StopSignal();

}  // namespace poolscope::trainer
