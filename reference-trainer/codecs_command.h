#pragma once

namespace poolscope::trainer {

// `poolscope-trainer codecs`: trains on the cpu and measures codecs on the gradients and weights of
// the last steps, per kind of tensor; or, with --final-loss, trains once per codec. argv[0] is
// "codecs". Returns the exit code.
int CodecsCommand(int argc, const char* const* argv);

}  // namespace poolscope::trainer
