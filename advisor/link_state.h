#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "advisor/model.h"

// A link inside the simulation: a FIFO queue, lanes, and a buffer of slots for each receiver.
namespace poolscope {

struct SimulatedMessage {
  int source = 0, destination = 0;
  int number = 0;  // asynchronous gradients: the attempt; weights: the version
};

class LinkState {
 public:
  // A model's worth of bytes is split over `shards` messages.
  LinkState(const LinkModel& model, int receivers, int shards)
      : model_(model),
        raw_bytes_(model.raw_bytes / shards),
        free_lanes_(std::max(1, model.lanes)),
        used_(static_cast<size_t>(receivers)),
        arrived_(static_cast<size_t>(receivers)) {}

  // Of one message.
  double encode_ns() const { return raw_bytes_ * model_.codec.encode_ns_per_byte; }
  double decode_ns() const { return raw_bytes_ * model_.codec.decode_ns_per_byte; }
  double apply_ns() const { return raw_bytes_ * model_.apply_ns_per_byte; }
  double lane_ns() const {
    return raw_bytes_ * model_.codec.ratio * model_.ns_per_byte + model_.lane_overhead_ns;
  }
  const LinkModel& model() const { return model_; }

  bool HasSlot(int receiver) const { return used_[At(receiver)] < model_.depth; }
  bool Arrived(int receiver) const { return !arrived_[At(receiver)].empty(); }

  void HandOver(double now, const SimulatedMessage& message) {
    CountDepth(now, +1);
    ++used_[At(message.destination)];
    queue_.push_back(message);
  }

  // Takes the next message of the queue onto a free lane. The caller lets it arrive, and calls
  // LaneFreed, in their time. False: no free lane, or nothing queued.
  bool StartNext(SimulatedMessage& message) {
    if (free_lanes_ == 0 || queue_.empty()) return false;
    message = queue_.front();
    queue_.pop_front();
    --free_lanes_;
    lane_busy_ns_ += lane_ns();
    return true;
  }
  void LaneFreed() { ++free_lanes_; }
  void Arrive(const SimulatedMessage& message) {
    arrived_[At(message.destination)].push_back(message);
  }

  SimulatedMessage Take(double now, int receiver) {
    CountDepth(now, -1);
    --used_[At(receiver)];
    const SimulatedMessage message = arrived_[At(receiver)].front();
    arrived_[At(receiver)].pop_front();
    return message;
  }

  void MeasureFrom(double now) {
    CountDepth(now, 0);
    measured_from_ = now;
    depth_ns_ = 0;
    lane_busy_ns_ = 0;
  }
  double MeanDepth(double now) {
    CountDepth(now, 0);
    return now > measured_from_ ? depth_ns_ / (now - measured_from_) : 0;
  }
  double LaneBusy(double now) const {
    const double wall = (now - measured_from_) * std::max(1, model_.lanes);
    return wall > 0 ? std::min(1.0, lane_busy_ns_ / wall) : 0;
  }

 private:
  static size_t At(int index) { return static_cast<size_t>(index); }
  void CountDepth(double now, int change) {
    depth_ns_ += depth_ * (now - depth_since_);
    depth_since_ = now;
    depth_ += change;
  }

  const LinkModel& model_;
  const double raw_bytes_;
  int free_lanes_;
  std::deque<SimulatedMessage> queue_;
  std::vector<int> used_;  // slots, by receiver
  std::vector<std::deque<SimulatedMessage>> arrived_;
  double depth_ = 0, depth_since_ = 0, depth_ns_ = 0, lane_busy_ns_ = 0, measured_from_ = 0;
};

}  // namespace poolscope
