#include "reference-trainer/message.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace poolscope::trainer {
namespace {

// fields | Packed | the block's bytes
struct Packed {
  uint64_t count;
  uint32_t crc32c;
  Codec codec;
};
static_assert(std::is_trivially_copyable_v<MessageFields> && std::is_trivially_copyable_v<Packed>);
constexpr size_t kHead = sizeof(MessageFields) + sizeof(Packed);

}  // namespace

std::vector<uint8_t> Pack(const Message& message) {
  const MessageFields& fields = message;
  const Packed packed{message.block.count, message.block.crc32c, message.block.codec};
  std::vector<uint8_t> bytes(kHead + message.block.bytes.size());
  std::memcpy(bytes.data(), &fields, sizeof fields);
  std::memcpy(bytes.data() + sizeof fields, &packed, sizeof packed);
  std::copy(message.block.bytes.begin(), message.block.bytes.end(), bytes.begin() + kHead);
  return bytes;
}

bool Unpack(std::span<const uint8_t> bytes, Message& message) {
  if (bytes.size() < kHead) return false;
  MessageFields& fields = message;
  Packed packed{};
  std::memcpy(&fields, bytes.data(), sizeof fields);
  std::memcpy(&packed, bytes.data() + sizeof fields, sizeof packed);
  const auto body = bytes.subspan(kHead);
  message.block = {{body.begin(), body.end()}, packed.count, packed.crc32c, packed.codec};
  return true;
}

}  // namespace poolscope::trainer
