#pragma once

#include <string>
#include <vector>

#include "reference-trainer/buffered_link.h"

namespace poolscope::trainer {

// A link inside the process, with the speed of a network that is not there.
//
//   sender ──hand over──▶ queue ──FIFO──▶ lane: bytes ÷ bandwidth ──▶ latency ──▶ receiver's buffer
//
// Each lane is a thread that carries one message at a time; latency does not occupy it. A message
// that finds its lane free is on the wire from the instant of its hand-over, and one that follows
// another from the instant the other left, so that the lanes' own wake-up times do not add up.
class ShapedLink : public BufferedLink {
 public:
  // `receivers`: one signal per worker of the receiving pool; they outlive the link.
  ShapedLink(const std::string& name, Shape shape, size_t senders,
             const std::vector<Signal*>& receivers);
  ~ShapedLink() override { Stop(); }

 private:
  void Carry();
};

}  // namespace poolscope::trainer
