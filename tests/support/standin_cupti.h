#pragma once

#include <cstdint>
#include <string>

// What the job plays CUPTI's part with: see standin_cupti.cpp.
extern "C" {
// Does what one line of a timeline says; false, and a line on stderr: it is none.
bool standin_cupti_line(const char* line);
}

// Within the library: CUPTI's clock, and the lines of PM sampling; false: it is none of these.
uint64_t StandinNow();
bool StandinSampling(const std::string& word, const std::string& name, double value);
