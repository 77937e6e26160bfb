#pragma once

#include <cstdint>
#include <span>

namespace poolscope::trainer {

// CRC32C (Castagnoli) as in RFC 3720, appendix B.4: reflected, initial value and final XOR all
// ones. Uses SSE4.2 where the processor has it.
uint32_t Crc32c(std::span<const uint8_t> bytes);

// The same by table, on any processor.
uint32_t Crc32cByTable(std::span<const uint8_t> bytes);

}  // namespace poolscope::trainer
