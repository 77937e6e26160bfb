// The records of the stand-in libcupti. Where each field lies was computed with offsetof from
// NVIDIA's headers, not from the agent's.

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <iterator>
#include <string>
#include <utility>

#include "tests/support/standin_cupti.h"

namespace {

// By kind; 0: no record of this kind is known.
size_t record_bytes[100];
std::deque<std::string> names;  // of kernels and variables, for ever

[[gnu::constructor]] void SetFirstSizes() { StandinSizes(130001, 0); }

class Bytes {
 public:
  Bytes(uint32_t kind, const Line& line, uint64_t now) : bytes_(StandinBytesOf(kind)) {
    Put(0, kind);
    start_ = line.Get("start", now - static_cast<uint64_t>(line.Real("at", 100) * 1000));
    end_ = line.Get("end", start_ + static_cast<uint64_t>(line.Real("for", 10) * 1000));
  }
  template <typename T>
  Bytes& Put(size_t offset, T value) {
    if (offset + sizeof(T) <= bytes_.size()) memcpy(bytes_.data() + offset, &value, sizeof(T));
    return *this;
  }
  Bytes& Times(size_t offset) { return Put(offset, start_).Put(offset + 8, end_); }
  Bytes& Time(size_t offset) { return Put(offset, start_); }
  Bytes& Place(size_t at, const Line& line) {
    return Put(at, line.Number("device", 0))
        .Put(at + 4, line.Number("context", 1))
        .Put(at + 8, line.Number("stream", 7));
  }
  std::vector<uint8_t> all() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
  uint64_t start_, end_;
};

const char* Kept(const std::string& name) {
  names.push_back(name);
  return names.back().c_str();
}

std::vector<uint8_t> Kernel(const Line& line, uint64_t now) {
  Bytes bytes(line.Number("kind", 10), line, now);
  bytes.Times(16).Place(40, line);
  bytes.Put(6, static_cast<uint16_t>(line.Get("registers", 32)));
  for (size_t i = 0; i < 6; ++i) bytes.Put(52 + 4 * i, int32_t{1});
  bytes.Put(52, line.Number("grid_x", 1)).Put(60, line.Number("grid_z", 1));
  bytes.Put(64, line.Number("block_x", 1)).Put(68, line.Number("block_y", 1));
  bytes.Put(76, line.Number("static_shared", 0)).Put(80, line.Number("dynamic_shared", 0));
  bytes.Put(92, line.Number("correlation", 0));
  bytes.Put(104, line.values.count("unnamed") != 0 ? nullptr : Kept(line.name));
  return bytes.Put(144, line.Get("graph_node", 0)).Put(156, line.Number("graph", 0)).all();
}

std::vector<uint8_t> Copy(const Line& line, uint64_t now) {
  Bytes bytes(1, line, now);
  bytes.Times(16).Place(32, line);
  bytes.Put(4, static_cast<uint8_t>(line.Get("kind", 1)))
      .Put(5, static_cast<uint8_t>(line.Get("from", 1)))
      .Put(6, static_cast<uint8_t>(line.Get("to", 3)));
  return bytes.Put(8, line.Get("bytes", 0)).Put(44, line.Number("correlation", 0)).all();
}

std::vector<uint8_t> Peer(const Line& line, uint64_t now) {
  Bytes bytes(22, line, now);
  bytes.Times(16).Place(32, line);
  bytes.Put(4, uint8_t{10}).Put(5, uint8_t{3}).Put(6, uint8_t{3}).Put(8, line.Get("bytes", 0));
  bytes.Put(44, line.Number("from_device", 0)).Put(52, line.Number("to_device", 1));
  return bytes.Put(60, line.Number("correlation", 0)).all();
}

std::vector<uint8_t> Memset(const Line& line, uint64_t now) {
  Bytes bytes(2, line, now);
  bytes.Times(16).Place(32, line);
  return bytes.Put(8, line.Get("bytes", 0)).Put(44, line.Number("correlation", 0)).all();
}

std::vector<uint8_t> Synchronize(const Line& line, uint64_t now) {
  Bytes bytes(38, line, now);
  bytes.Times(8).Put(4, line.Number("type", 3)).Put(24, line.Number("correlation", 0));
  return bytes.Put(28, line.Number("context", 1)).Put(32, line.Number("stream", 7)).all();
}

std::vector<uint8_t> Overhead(const Line& line, uint64_t now) {
  Bytes bytes(17, line, now);
  bytes.Times(24).Put(4, line.Number("type", 0)).Put(8, uint32_t{2});
  bytes.Put(16, line.Number("tid", 0));
  if (StandinBytesOf(17) >= 56) bytes.Put(48, malloc(24));  // the details, which the agent frees
  return bytes.all();
}

std::vector<uint8_t> Api(const Line& line, uint64_t now) {
  Bytes bytes(line.Number("kind", 5), line, now);
  bytes.Times(8).Put(24, static_cast<uint32_t>(getpid()));
  bytes.Put(28, line.Number("tid", static_cast<uint32_t>(syscall(SYS_gettid))));
  return bytes.Put(32, line.Number("correlation", 0)).all();
}

// Allocations and releases of memory.
std::vector<uint8_t> Memory(const Line& line, uint64_t now) {
  Bytes bytes(49, line, now);
  bytes.Put(4, line.Number("operation", line.word == "allocate" ? 1 : 2));
  bytes.Put(8, line.Number("memory", 3)).Put(12, line.Number("correlation", 0));
  bytes.Put(16, line.Get("address", 0)).Put(24, line.Get("bytes", 0)).Time(32);
  bytes.Put(48, static_cast<uint32_t>(getpid())).Place(52, line);
  if (line.values.count("stream") == 0) bytes.Put(60, ~0u);
  bytes.Put(64, line.name.empty() ? nullptr : Kept(line.name));
  bytes.Put(72, line.Number("async", 0)).Put(80, line.Number("pool_type", 0));
  return bytes.Put(88, line.Get("pool", 0)).Put(104, line.Get("pool_bytes", 0)).all();
}

std::vector<uint8_t> Pool(const Line& line, uint64_t now) {
  Bytes bytes(50, line, now);
  bytes.Put(4, line.Number("operation", 1)).Put(8, line.Number("pool_type", 1));
  bytes.Put(12, line.Number("correlation", 0)).Put(16, static_cast<uint32_t>(getpid()));
  bytes.Put(20, line.Number("device", 0)).Put(32, line.Get("pool", 0));
  return bytes.Put(40, line.Get("pool_bytes", 0)).Time(56).all();
}

}  // namespace

void StandinSizes(uint32_t version, size_t kernel_bytes) {
  const auto newest = [&](std::initializer_list<std::pair<uint32_t, size_t>> sizes) {
    size_t bytes = 0;
    for (const auto& [since, size] : sizes) bytes = version >= since ? size : bytes;
    return bytes + (version > 139999 ? 64 : 0);  // of a version to come
  };
  record_bytes[1] = newest({{0, 88}, {26, 96}, {130500, 112}});
  record_bytes[2] = newest({{0, 88}, {130500, 104}});
  record_bytes[4] = record_bytes[5] = 40;
  record_bytes[9] = newest({{0, 16}, {22, 24}, {23, 32}, {130500, 40}});
  record_bytes[3] = record_bytes[10] =
      kernel_bytes != 0 ? kernel_bytes
                        : newest({{0, 200}, {19, 208}, {130000, 216}, {130500, 248}});
  record_bytes[17] = newest({{0, 40}, {21, 48}, {22, 56}});
  record_bytes[22] = newest({{0, 96}});
  record_bytes[38] = newest({{0, 40}, {26, 56}});
  record_bytes[49] = newest({{0, 120}, {24, 128}});
  record_bytes[50] = newest({{0, 72}, {130000, 80}});
  record_bytes[99] = 64;
}

size_t StandinBytesOf(uint32_t kind) {
  return kind < std::size(record_bytes) ? record_bytes[kind] : 0;
}

std::vector<uint8_t> StandinRecord(const Line& line, uint64_t now) {
  const std::string& word = line.word;
  if (word == "kernel") return Kernel(line, now);
  if (word == "copy") return Copy(line, now);
  if (word == "peer") return Peer(line, now);
  if (word == "memset") return Memset(line, now);
  if (word == "synchronize") return Synchronize(line, now);
  if (word == "overhead") return Overhead(line, now);
  if (word == "api") return Api(line, now);
  if (word == "allocate" || word == "release") return Memory(line, now);
  if (word == "pool") return Pool(line, now);
  if (word == "other") return Bytes(line.Number("kind", 99), line, now).all();
  if (word == "context") {
    return Bytes(9, line, now)
        .Put(4, line.Number("context", 1))
        .Put(8, line.Number("device", 0))
        .all();
  }
  return {};
}
