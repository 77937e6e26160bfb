#include "reference-trainer/wire_link.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

namespace poolscope::trainer {

WireLink::WireLink(const std::string& name, Shape shape, size_t senders,
                   const std::vector<Signal*>& receivers,
                   std::function<std::unique_ptr<Wire>()> make,
                   std::function<void(const std::string&)> fail)
    : BufferedLink(name, shape, senders, receivers),
      make_(std::move(make)),
      fail_(std::move(fail)) {
  for (size_t lane = 0; lane < shape.lanes; ++lane) {
    Start(lane, [this] {
      try {
        Carry();
      } catch (const std::exception& error) {
        fail_(fmt::format("link {}: {}", this->name(), error.what()));
      }
    });
  }
}

void WireLink::Carry() {
  const std::unique_ptr<Wire> wire = make_();
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    MessagePtr message = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    BeginWire(*message);
    if (message->probe()) {  // has no values: any bytes will do
      std::vector<uint8_t> bytes(message->wire_bytes);
      wire->Carry(message->source, message->destination, bytes);
    } else {
      wire->Carry(message->source, message->destination, message->block.bytes);
    }
    Deliver(std::move(message));
    lock.lock();
  }
}

}  // namespace poolscope::trainer
