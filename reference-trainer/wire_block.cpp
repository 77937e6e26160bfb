#include "reference-trainer/wire_block.h"

#include <cstring>

#include "reference-trainer/crc32c.h"

namespace poolscope::trainer {

std::vector<uint8_t> Seal(const BlockHeader& header, std::span<const uint8_t> contents) {
  std::vector<uint8_t> wire(kBlockOverhead + contents.size());
  const size_t sealed = wire.size() - sizeof(uint32_t);
  std::memcpy(wire.data(), &header, sizeof header);
  if (!contents.empty()) std::memcpy(wire.data() + sizeof header, contents.data(), contents.size());
  const uint32_t crc = Crc32c({wire.data(), sealed});
  std::memcpy(wire.data() + sealed, &crc, sizeof crc);
  return wire;
}

bool Unseal(std::span<const uint8_t> wire, BlockHeader& header,
            std::span<const uint8_t>& contents) {
  if (wire.size() < kBlockOverhead) return false;
  const size_t sealed = wire.size() - sizeof(uint32_t);
  uint32_t crc = 0;
  std::memcpy(&crc, wire.data() + sealed, sizeof crc);
  if (crc != Crc32c(wire.first(sealed))) return false;
  std::memcpy(&header, wire.data(), sizeof header);
  contents = wire.subspan(sizeof header, sealed - sizeof header);
  return header.parts <= kMaxParts && header.part < header.parts &&
         header.size <= UINT64_MAX / kMaxParts &&
         contents.size() == (header.kind == BlockKind::kData ? header.end() - header.begin() : 0);
}

}  // namespace poolscope::trainer
