#pragma once

#include "trace/reason.h"

// The folder of a user's session files: $POOLSCOPE_RUN_DIR, else /dev/shm/poolscope-<uid>.

namespace poolscope {

// Opens it, made with mode 0700 where it does not exist. Refuses a link, a folder of someone else,
// one that others may enter, and what is not tmpfs (a disk's writeback would stall the job).
// Returns a descriptor that the caller closes, or -1 and the reason.
int OpenRunDirectory(Reason* why);

// Removes session files that nobody can need: the writer is gone and either everything is drained
// by a collector and the file has not grown for ten minutes, or it is older than a day. Looks at
// 1024 names at most; files that are locked, unreadable or of a foreign kind stay.
void SweepRunDirectory(int directory);

// A process without a session says so to the collector, by a link in the folder that is named
// <run id, or ->.<pid>.off and whose target is the reason: that needs no room even on a full tmpfs.
inline constexpr char kNoteSuffix[] = ".off";
void LeaveNote(const char* why);

}  // namespace poolscope
