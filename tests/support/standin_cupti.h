#pragma once

// What the job plays CUPTI's part with: see standin_cupti.cpp.
extern "C" {
// Does what one line of a timeline says; false, and a line on stderr: it is none.
bool standin_cupti_line(const char* line);
}
