#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reference-trainer/buffered_link.h"

namespace poolscope::trainer {

// What carries bytes between two workers. Used by one thread.
class Wire {
 public:
  virtual ~Wire() = default;
  // Replaces `bytes`, which `source` sends, by what `destination` receives. Returns when they are
  // there; throws std::exception, one line, where they do not get through.
  virtual void Carry(size_t source, size_t destination, std::vector<uint8_t>& bytes) = 0;
};

// A link inside the process over wires that are really there: each lane is a thread with a wire of
// its own, which carries one message at a time.
class WireLink : public BufferedLink {
 public:
  // `make` is called once on each lane's thread, may throw as Carry does. `fail` is called, from
  // such a thread, with the line that a wire has thrown; the lane then carries nothing more.
  WireLink(const std::string& name, Shape shape, size_t senders,
           const std::vector<Signal*>& receivers, std::function<std::unique_ptr<Wire>()> make,
           std::function<void(const std::string&)> fail);
  ~WireLink() override { Stop(); }

 private:
  void Carry();

  const std::function<std::unique_ptr<Wire>()> make_;
  const std::function<void(const std::string&)> fail_;
};

}  // namespace poolscope::trainer
