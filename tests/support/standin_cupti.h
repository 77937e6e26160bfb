#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/standin_cupti_line.h"

// What the job plays CUPTI's part with: see standin_cupti.cpp.
extern "C" {
// Does what one line of a timeline says; false, and a line on stderr: it is none.
bool standin_cupti_line(const char* line);
}

// Within the library: CUPTI's clock, and the lines of PM sampling; false: it is none of these.
uint64_t StandinNow();
bool StandinSampling(const std::string& word, const std::string& name, double value);

// The record that a line describes, its times counted from `now`; empty: it describes none.
std::vector<uint8_t> StandinRecord(const Line& line, uint64_t now);
// Of records of a kind, 0: there is none such; in this version, kernels' as long as said unless 0.
size_t StandinBytesOf(uint32_t kind);
void StandinSizes(uint32_t version, size_t kernel_bytes);
