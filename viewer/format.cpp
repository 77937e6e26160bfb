#include "viewer/format.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace poolscope {
namespace {

std::string ThreeDigits(double value) {
  const double size = std::fabs(value);
  if (size >= 99.95) return fmt::format("{:.0f}", value);
  if (size >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

}  // namespace

std::string FormatDuration(double ns) {
  const double size = std::fabs(ns);
  if (size < 999.5) return fmt::format("{:.0f} ns", ns);
  if (size < 999.5e3) return ThreeDigits(ns / 1e3) + " µs";
  if (size < 999.5e6) return ThreeDigits(ns / 1e6) + " ms";
  if (size < 119.5e9) return ThreeDigits(ns / 1e9) + " s";
  const auto seconds = static_cast<int64_t>(std::llround(size / 1e9));
  const char* sign = ns < 0 ? "-" : "";
  if (seconds < 7200) return fmt::format("{}{} min {:02} s", sign, seconds / 60, seconds % 60);
  return fmt::format("{}{} h {:02} min", sign, seconds / 3600, seconds / 60 % 60);
}

std::string FormatBytes(double bytes) {
  static constexpr std::array<const char*, 6> kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (std::fabs(bytes) >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f} B", bytes);
  return ThreeDigits(bytes) + " " + kUnits[unit];
}

std::string FormatCount(double count) {
  static constexpr std::array<const char*, 5> kUnits = {"", " k", " M", " G", " T"};
  if (std::fabs(count) < 10000) {
    const bool whole = count == std::floor(count);
    return whole ? fmt::format("{:.0f}", count) : ThreeDigits(count);
  }
  size_t unit = 0;
  while (std::fabs(count) >= 999.5 && unit + 1 < kUnits.size()) {
    count /= 1000;
    ++unit;
  }
  return ThreeDigits(count) + kUnits[unit];
}

std::string FormatPercent(double ratio) {
  const double percent = ratio * 100;
  if (std::fabs(percent) >= 9.95 || percent == 0) return fmt::format("{:.0f} %", percent);
  return fmt::format("{:.1f} %", percent);
}

bool IsShare(const std::string& counter) {
  return counter.ends_with("_active") || counter.ends_with(".occupancy") ||
         counter.ends_with("_ratio");
}

std::string FormatCounter(const std::string& counter, double value) {
  const std::string sign = value < 0 ? "\xe2\x88\x92" : "";
  const double size = std::fabs(value);
  if (counter.ends_with("bytes_per_second")) return sign + FormatBytes(size) + "/s";
  if (counter.find("bytes") != std::string::npos) return sign + FormatBytes(size);
  if (IsShare(counter)) return FormatPercent(value);
  if (counter.ends_with("_ns")) return sign + FormatDuration(size);
  if (counter.ends_with("seconds")) return sign + FormatDuration(size * 1e9);
  const bool whole = size == std::floor(size);
  return sign + (whole || size >= 10'000 ? FormatCount(size) : fmt::format("{:.3g}", size));
}

std::string FormatSentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    // A word with a dot or underscore in it is a name and stays as it is.
    const std::string first = text.substr(0, text.find(' '));
    if (first.find_first_of("._:") == std::string::npos) text[0] = static_cast<char>(text[0] - 32);
  }
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool after_digit = i > 0 && text[i - 1] >= '0' && text[i - 1] <= '9';
    if (text.compare(i, 2, "->") == 0) {
      out += "\xe2\x86\x92";
      ++i;
    } else if (text[i] == ' ' && after_digit && i + 1 < text.size()) {
      const size_t end = text.find_first_of(" ,.;)]", i + 1);
      const std::string unit = text.substr(i + 1, end == std::string::npos ? end : end - i - 1);
      const bool is_unit = unit == "%" || unit == "s" || unit == "ms" || unit == "us" ||
                           unit == "ns" || unit == "x" || unit == "B" || unit == "kB" ||
                           unit == "MB" || unit == "GB";
      out += is_unit ? "\xc2\xa0" : " ";
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace poolscope
