#include "viewer/meaning.h"

#include "viewer/palette.h"

namespace poolscope {

Result<Vocabulary> Vocabulary::Read(const Store& store) {
  Vocabulary words;
  const std::pair<std::string_view, uint32_t*> wanted[] = {
      {kPoolscopeDomain, &words.poolscope_domain},
      {kTransferSchema, &words.transfer},
      {kWorkSchema, &words.work},
      {kWaitSchema, &words.wait},
      {kStepSchema, &words.step},
      {kMappedSchema, &words.mapped},
      {"nvtx.color", &words.colour},
      {kKernelSchema, &words.kernel},
      {kCopySchema, &words.copy},
      {kMemsetSchema, &words.memset},
      {kSynchronizationSchema, &words.synchronization},
      {"cuda.overhead", &words.overhead},
      {kNcclSchema, &words.nccl}};
  for (const auto& [text, id] : wanted) {
    const Result<uint32_t> found = store.FindString(text);
    if (!found) return found.error();
    *id = *found;
  }
  return words;
}

Category Meanings::Of(const Event& event, const EventBatch& batch) {
  if (words_.poolscope_domain != 0 && event.domain == words_.poolscope_domain) {
    return event.category <= static_cast<uint32_t>(kLastCategory)
               ? static_cast<Category>(event.category)
               : Category::kNone;
  }
  const auto carries = [&](uint32_t schema) {
    return schema != 0 && !batch.Payload(event, schema).empty();
  };
  if (carries(words_.memset)) return DeviceMeaning(kMemsetSchema, "");
  if (!carries(words_.kernel)) return Category::kNone;
  const auto [known, fresh] = kernels_.try_emplace(event.name, Category::kWork);
  if (fresh) {
    if (const Result<std::string> name = store_.String(event.name)) {
      known->second = DeviceMeaning(kKernelSchema, *name);
    }
  }
  return known->second;
}

EventLook Meanings::Look(const Event& event, const EventBatch& batch) {
  EventLook look;
  const Category category = Of(event, batch);
  look.category = static_cast<uint32_t>(category);
  const auto payload = [&](uint32_t schema) {
    return schema == 0 ? std::span<const uint64_t>() : batch.Payload(event, schema);
  };
  look.inferred = !payload(words_.mapped).empty();
  if (category == Category::kTransfer) {
    const auto transfer = payload(words_.transfer);
    look.stage = transfer.empty() ? 255 : static_cast<uint8_t>(transfer[kTransferStage]);
  }
  if (category != Category::kNone || event.payload_words == 0) return look;
  if (!payload(words_.copy).empty()) look.category = kDrawnCopy;
  if (!payload(words_.synchronization).empty()) look.category = kDrawnSynchronization;
  if (!payload(words_.overhead).empty()) look.category = kDrawnOverhead;
  if (!payload(words_.nccl).empty()) look.category = static_cast<uint32_t>(Category::kWaitPeer);
  // 0xAARRGGBB; how transparent another tool would draw it is of no use here. PyPI's nvtx gives
  // this blue to ranges for which the program chose none.
  constexpr uint64_t kNotChosen = 0x000000ff;
  if (const auto colour = payload(words_.colour); !colour.empty() && colour[0] != kNotChosen) {
    look.colour = Rgb(static_cast<uint32_t>(colour[0]) & 0xffffff);
  }
  return look;
}

LooksByName Meanings::LooksOf(const EventBatch& batch) {
  LooksByName looks;
  for (const Event& event : batch.events) {
    const auto [look, fresh] = looks.try_emplace(event.name);
    if (fresh) look->second = Look(event, batch);
  }
  return looks;
}

}  // namespace poolscope
