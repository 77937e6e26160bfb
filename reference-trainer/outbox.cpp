#include "reference-trainer/outbox.h"

#include <span>

namespace poolscope::trainer {

BlockHeader Outbox::Add(uint32_t source, uint32_t destination, uint64_t version,
                        std::vector<uint8_t> contents, uint32_t parts) {
  BlockHeader first;
  first.source = source;
  first.destination = destination;
  first.message = next_[{source, destination}]++;
  first.version = version;
  first.size = contents.size();
  first.parts = parts;
  kept_.try_emplace(
      {source, destination, first.message},
      Kept{first, std::move(contents), std::vector<Part>(parts, Part{Retry(patience_)}), parts});
  return first;
}

Outbox::Kept* Outbox::Find(const BlockHeader& block) {
  const auto found = kept_.find({block.source, block.destination, block.message});
  return found == kept_.end() || block.part >= found->second.parts.size() ? nullptr
                                                                          : &found->second;
}

Outbox::Part* Outbox::FindOpen(const BlockHeader& block) {
  Kept* kept = Find(block);
  if (!kept || kept->parts[block.part].acknowledged) return nullptr;
  return &kept->parts[block.part];
}

std::vector<uint8_t> Outbox::Try(BlockHeader& block, int64_t sent_ns) {
  Part* part = FindOpen(block);
  if (!part) return {};
  block.attempt = part->retry.tries();
  part->retry.Tried(sent_ns);
  due_.push({part->retry.due_ns(), block});
  return Seal(block,
              std::span(Find(block)->contents).subspan(block.begin(), block.end() - block.begin()));
}

bool Outbox::Acknowledge(const BlockHeader& block) {
  Part* part = FindOpen(block);
  if (!part) return false;
  part->acknowledged = true;
  Kept* kept = Find(block);
  if (--kept->open > 0) return false;
  Forget(block);
  return true;
}

int64_t Outbox::due_ns() {
  while (!due_.empty() && !FindOpen(due_.top().block)) due_.pop();
  return due_.empty() ? INT64_MAX : due_.top().at_ns;
}

std::optional<BlockHeader> Outbox::TakeDue(int64_t now_ns) {
  if (due_ns() > now_ns) return std::nullopt;
  const BlockHeader block = due_.top().block;
  due_.pop();
  return block;
}

}  // namespace poolscope::trainer
