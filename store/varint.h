#pragma once

#include <cstdint>
#include <span>

// LEB128 numbers: seven bits a byte, lowest first, the top bit says that more follow.
namespace poolscope {

inline constexpr int kMaxVarintBytes = 10;

// Signed numbers near zero become small unsigned ones: 0, -1, 1, -2 -> 0, 1, 2, 3.
inline uint64_t ZigZag(uint64_t difference) { return (difference << 1) ^ (0 - (difference >> 63)); }
inline uint64_t UnZigZag(uint64_t coded) { return (coded >> 1) ^ (0 - (coded & 1)); }

// Writes to memory with kMaxVarintBytes of room; returns the place after it.
inline uint8_t* PutVarint(uint8_t* to, uint64_t value) {
  while (value >= 0x80) {
    *to++ = static_cast<uint8_t>(value) | 0x80;
    value >>= 7;
  }
  *to++ = static_cast<uint8_t>(value);
  return to;
}

// Reads untrusted bytes. After the first impossible read everything reads as 0 and ok() is false.
class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool ok() const { return ok_; }
  bool done() const { return at_ == end_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }

  uint8_t Byte() {
    if (at_ == end_) return Fail();
    return *at_++;
  }

  uint64_t Varint() {
    if (at_ != end_ && *at_ < 0x80) return *at_++;
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) return Fail();
      const uint8_t byte = *at_++;
      if (shift == 63 && byte > 1) return Fail();
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return Fail();
  }

  // A number that must not be above `most`.
  uint64_t Varint(uint64_t most) {
    const uint64_t value = Varint();
    return value <= most ? value : Fail();
  }

  std::span<const uint8_t> Bytes(uint64_t count) {
    if (count > left()) {
      Fail();
      return {};
    }
    const std::span<const uint8_t> bytes(at_, count);
    at_ += count;
    return bytes;
  }

 private:
  uint8_t Fail() {
    ok_ = false;
    at_ = end_;
    return 0;
  }

  const uint8_t* at_;
  const uint8_t* end_;
  bool ok_ = true;
};

}  // namespace poolscope
