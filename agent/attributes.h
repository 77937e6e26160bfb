#pragma once

#include <bit>

#include "agent/nvtx.h"
#include "agent/payload_words.h"
#include "agent/text.h"

namespace poolscope::agent {

// What nvtxEventAttributes_t says of an event, in the session's terms. The words of extended
// payloads stay in `groups`, which must outlive it.
class Attributes {
 public:
  Attributes(ThreadWriter& writer, uint32_t domain, const nvtxEventAttributes_t* attributes,
             PayloadWords* groups) {
    if (attributes == nullptr || attributes->size < NVTX_EVENT_ATTRIB_STRUCT_SIZE) return;
    category = attributes->category;
    switch (attributes->messageType) {
      case NVTX_MESSAGE_TYPE_REGISTERED:
        name = StringOf(attributes->message.registered);
        break;
      case NVTX_MESSAGE_TYPE_ASCII:
        name = NameOf(writer, attributes->message.ascii);
        break;
      case NVTX_MESSAGE_TYPE_UNICODE:
        name = InternWide(attributes->message.unicode);
        break;
      default:
        break;
    }
    if (attributes->payloadType == NVTX_PAYLOAD_UNKNOWN &&
        attributes->colorType == NVTX_COLOR_UNKNOWN) [[likely]]
      return;
    if (attributes->payloadType == NVTX_PAYLOAD_TYPE_EXT) {
      const auto count = static_cast<uint32_t>(attributes->reserved0);
      groups->Add(writer, domain,
                  reinterpret_cast<const nvtxPayloadData_t*>(
                      static_cast<uintptr_t>(attributes->payload.ullValue)),
                  count);
      if (name == 0) name = groups->message();
    } else {
      TakeValue(*attributes);
    }
    if (attributes->colorType == NVTX_COLOR_ARGB) {
      groups->AddOwn(writer, OwnSchema::kColor, {attributes->color});
    }
    payload.words = groups->count();
    payload.groups = groups->words();
  }

  uint32_t name = 0;
  uint32_t category = 0;
  EventPayload payload;

 private:
  void TakeValue(const nvtxEventAttributes_t& attributes) {
    payload.flags = kRecordHasValue;
    switch (attributes.payloadType) {
      case NVTX_PAYLOAD_TYPE_UNSIGNED_INT64:
      case NVTX_PAYLOAD_TYPE_INT64:
        payload.value = attributes.payload.ullValue;
        break;
      case NVTX_PAYLOAD_TYPE_UNSIGNED_INT32:
        payload.value = attributes.payload.uiValue;
        break;
      case NVTX_PAYLOAD_TYPE_INT32:
        payload.value = static_cast<uint64_t>(int64_t{attributes.payload.iValue});
        break;
      case NVTX_PAYLOAD_TYPE_DOUBLE:
        payload.flags |= kRecordFloat;
        payload.value = std::bit_cast<uint64_t>(attributes.payload.dValue);
        break;
      case NVTX_PAYLOAD_TYPE_FLOAT:
        payload.flags |= kRecordFloat;
        payload.value = std::bit_cast<uint64_t>(double{attributes.payload.fValue});
        break;
      default:
        payload.flags = 0;
        break;
    }
  }
};

}  // namespace poolscope::agent
