#include "viewer/discards.h"

#include <algorithm>

#include "viewer/picture.h"

namespace poolscope {
namespace {

uint64_t Field(std::span<const uint64_t> fields, uint32_t field) {
  return field < fields.size() ? fields[field] : kNoValue;
}

}  // namespace

void Discards::Add(const std::string& sending_pool, const Event& mark,
                   std::span<const uint64_t> transfer_fields) {
  const uint64_t source = Field(transfer_fields, kTransferSource);
  const uint64_t micro_batch = Field(transfer_fields, kTransferMicroBatch);
  if (source == kNoValue || micro_batch == kNoValue) return;
  marks_[{sending_pool, source, Field(transfer_fields, kTransferStep), micro_batch}].push_back(
      {mark.start_ns, Field(transfer_fields, kTransferVersion)});
}

bool Discards::Has(const std::string& pool, int64_t worker, const Event& work,
                   std::span<const uint64_t> work_fields) const {
  if (marks_.empty() || worker < 0) return false;
  const auto found =
      marks_.find({pool, static_cast<uint64_t>(worker), Field(work_fields, kWorkStep),
                   Field(work_fields, kWorkMicroBatch)});
  if (found == marks_.end()) return false;
  const uint64_t version = Field(work_fields, kWorkVersion);
  return std::any_of(found->second.begin(), found->second.end(), [&](const Mark& mark) {
    return work.end_ns() <= mark.at_ns &&
           (mark.version == version || mark.version == kNoValue || version == kNoValue);
  });
}

Result<bool> PictureMaker::ReadDiscards(const Catalog& catalog, const Order& order) {
  if (discards_ && discards_->begin_ns == order.begin_ns && discards_->end_ns == order.end_ns) {
    return discards_->complete;
  }
  discards_ = KnownDiscards{order.begin_ns, order.end_ns, false, {}};
  std::map<uint32_t, std::string> senders;  // sending pool by string id of the link
  for (const LinkRow& link : catalog.links) {
    Result<uint32_t> name = LinkName(link.link);
    if (!name) return name.error();
    if (*name != 0) senders[*name] = link.from_pool;
  }
  std::vector<int64_t> tracks;
  for (const TrackRow& track : catalog.tracks) {
    if (track.kind == static_cast<uint32_t>(EventKind::kMark)) tracks.push_back(track.track_id);
  }
  Order rest = order;  // a message may be thrown away long after its work
  rest.end_ns = std::max(order.end_ns, catalog.end_ns);
  rest.detail = true;
  Result<bool> decoded = ForEvents(tracks, rest, [&](const Event& event, const EventBatch& batch) {
    if (meanings_.Of(event, batch) != Category::kDiscard) return;
    const auto sender = senders.find(event.name);
    if (sender == senders.end()) return;
    discards_->discards.Add(sender->second, event, batch.Payload(event, catalog.words.transfer));
  });
  if (!decoded) return decoded.error();
  discards_->complete = *decoded;
  if (cancelled_) discards_.reset();
  return decoded;
}

}  // namespace poolscope
