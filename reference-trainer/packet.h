#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "reference-trainer/transport.h"

namespace poolscope::trainer {

// Values as the bytes of a packet, one behind the other, and back. Both ends are the same program
// on the same kind of machine: values are copied as they lie in memory. A list can only be the last
// one.
template <typename T>
constexpr bool kIsList = std::is_same_v<T, std::string> || std::is_same_v<T, std::vector<uint64_t>>;

template <typename T>
void Put(Transport::Bytes& bytes, const T& value) {
  if constexpr (kIsList<T>) {
    const auto* begin = reinterpret_cast<const uint8_t*>(value.data());
    bytes.insert(bytes.end(), begin, begin + value.size() * sizeof *value.data());
  } else {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t at = bytes.size();
    bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
}

template <typename... T>
Transport::Bytes PacketOf(const T&... values) {
  Transport::Bytes bytes;
  (Put(bytes, values), ...);
  return bytes;
}

class PacketReader {
 public:
  explicit PacketReader(const Transport::Bytes& bytes) : bytes_(bytes) {}

  template <typename T>
  T Get() {
    if constexpr (kIsList<T>) {
      T list((bytes_.size() - at_) / sizeof(typename T::value_type), {});
      std::memcpy(list.data(), bytes_.data() + at_, bytes_.size() - at_);
      return list;
    } else {
      T value{};
      std::memcpy(&value, bytes_.data() + at_, sizeof value);
      at_ += sizeof value;
      return value;
    }
  }

 private:
  const Transport::Bytes& bytes_;
  size_t at_ = 0;
};

}  // namespace poolscope::trainer
