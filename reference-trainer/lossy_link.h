#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reference-trainer/buffered_link.h"
#include "reference-trainer/crossing.h"
#include "reference-trainer/options_reliability.h"

namespace poolscope::trainer {

// A link inside the process whose wire may lose, damage, repeat, delay and reorder. Its one thread
// steps through a Crossing, all lanes together.
//
// Of a message that is sent in parts, or again, the wire stage lasts from its first byte until it
// is delivered; what else happens to it are POOLSCOPE_FAULT marks.
class LossyLink : public BufferedLink, private Crossing::Ends {
 public:
  // `fail` is called, from the link's thread, with one line on what could not be delivered.
  LossyLink(const std::string& name, Shape shape, size_t senders,
            const std::vector<Signal*>& receivers, const CrossingRules& rules,
            std::function<void(const std::string&)> fail);
  ~LossyLink() override { Stop(); }

  void AskAgain(size_t source, size_t destination, uint64_t version) override;

 private:
  void Carry();

  void OnWire(Message& message) override { BeginWire(message); }
  void Arrived(MessagePtr message) override { Deliver(std::move(message)); }
  void Lost(MessagePtr message) override { Drop(std::move(message)); }
  void AskedAgain(MessagePtr message) override { HandOverAgain(std::move(message)); }
  void Met(Crossing::Trouble trouble, const MessageFields& message, uint64_t bytes) override;
  void Failed(const MessageFields& message, uint32_t tries) override;

  struct Request {
    size_t source, destination;
    uint64_t version;
    int64_t at_ns;
  };

  const std::function<void(const std::string&)> fail_;
  Crossing crossing_;              // the link's thread alone
  std::vector<Request> requests_;  // guarded by mutex_
};

// A link inside the process with the wire that the options say, which is perfect where they say
// nothing. `fail` as in LossyLink.
std::unique_ptr<Link> MakeLink(const std::string& name, const Link::Shape& shape,
                               const ReliabilityOptions& reliability, const WireOptions& wire,
                               uint64_t seed, size_t senders, const std::vector<Signal*>& receivers,
                               const std::function<void(const std::string&)>& fail);

}  // namespace poolscope::trainer
