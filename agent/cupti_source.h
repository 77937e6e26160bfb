#pragma once

namespace poolscope::agent::cupti {

// Begins to record what devices do; once per process. On failure says why, and the rest of the
// agent goes on without.
void Start();

// In a forked child, where CUDA does not work: nothing is recorded.
void ForgetInChild();

}  // namespace poolscope::agent::cupti
