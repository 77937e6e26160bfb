#pragma once

#include <cstdint>
#include <initializer_list>

#include "agent/own_schema.h"
#include "agent/schema.h"
#include "trace/thread_writer.h"

namespace poolscope::agent {

// Payload words of one event while it is being recorded.
class PayloadWords {
 public:
  // Adds groups for each payload; what cannot be recorded is counted as kPayloadTooLarge.
  void Add(ThreadWriter& writer, uint32_t domain, const nvtxPayloadData_t* payloads, size_t count);

  // Adds a group of one of the agent's schemas.
  void AddOwn(ThreadWriter& writer, OwnSchema schema, std::initializer_list<uint64_t> values);

  uint32_t count() const { return count_; }
  const uint64_t* words() const { return words_; }
  uint32_t message() const { return message_; }  // string id, 0: no payload names the event
  uint32_t category() const { return category_; }

 private:
  struct Payloads {  // all of the event
    const nvtxPayloadData_t* at;
    size_t count;
    uint32_t domain;
  };
  struct Values {  // of a part
    const char* at;
    uint64_t room;   // bytes
    uint64_t count;  // elements
  };

  bool AddOne(ThreadWriter& writer, const Payloads& all, const nvtxPayloadData_t& payload);
  bool AddNumbers(const nvtxPayloadData_t& payload, const Number& number);
  bool AddParts(const Payloads& all, const nvtxPayloadData_t& payload, const Schema& schema);
  bool AddGroup(uint32_t schema, const Part& part, const Values& values);
  static bool Locate(const Payloads& all, const nvtxPayloadData_t& payload, const Part& part,
                     uint64_t offset, Values* values);
  static uint64_t Resolve(const Payloads& all, const nvtxPayloadData_t& payload,
                          const Reference& reference, const uint64_t* products);

  uint32_t count_ = 0;
  uint32_t message_ = 0;
  uint32_t category_ = 0;
  uint64_t words_[kMaxPayloadWords];
};

inline EventPayload PayloadOf(const PayloadWords& words) {
  return {.value = 0,
          .flags = 0,
          .words = words.count(),
          .name = words.message(),
          .groups = words.words()};
}

}  // namespace poolscope::agent
