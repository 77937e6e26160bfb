#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference-trainer/codec.h"

namespace poolscope::trainer {

// `bytes` through LZ4, Zstandard (level 1) or deflate (level 1); as they are where that is no
// smaller.
//
//   u8 0 stored, 1 compressed | u64 size before | the bytes       little endian
std::vector<uint8_t> Compress(ByteCoder coder, std::span<const uint8_t> bytes);

// False, and `error` says why, where the frame is malformed or holds more than `limit` bytes.
bool Decompress(ByteCoder coder, std::span<const uint8_t> frame, uint64_t limit,
                std::vector<uint8_t>& bytes, std::string& error);

}  // namespace poolscope::trainer
