#pragma once

#include <cstdint>
#include <string>

namespace poolscope {

// Numbers as a person reads them, three significant digits, unit last.
std::string FormatDuration(double ns);    // "842 ns", "12.3 µs", "1.20 s", "3 min 05 s"
std::string FormatBytes(double bytes);    // "1.50 MB" (powers of 1000)
std::string FormatCount(double count);    // "12.3 k", "4.56 M"; whole below 10 000
std::string FormatPercent(double ratio);  // "4.2 %", "57 %"
// A counter's value by what the end of its name says of its unit: "3.20 GB", "1.50 GB/s", "57 %".
std::string FormatCounter(const std::string& counter, double value);
bool IsShare(const std::string& counter);  // from 0 to 1, by its name

// A sentence of the report as a panel shows it: first letter upper case, "->" as an arrow, no line
// break between a number and its unit.
std::string FormatSentence(std::string text);

}  // namespace poolscope
