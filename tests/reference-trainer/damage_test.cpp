#include <gtest/gtest.h>

#include "reference-trainer/job.h"
#include "reference-trainer/update_worker.h"

namespace poolscope::trainer {
namespace {

TEST(Damage, ToABlockOnTheWire_EndsTheRunWithAMessageThatNamesIt) {
  Options options;
  options.compute_workers = 1;
  options.steps = 1;
  Job job(options, nullptr);
  UpdateWorker worker(job, 0);
  auto message = std::make_unique<Message>();
  message->sequence = 41;
  message->attempt = job.coordinator->TryStart(0, 0).number;
  message->block = Encode(Codec::kNone, std::vector<float>{1, 2, 3});
  message->block.bytes[5] ^= 0x10;
  EXPECT_EQ(job.gradients->TryReserve(0, *job.compute_signals[0]), Reserved::kYes);
  job.gradients->HandOver(std::move(message));
  EXPECT_THROW(worker.Run(), Abandoned);
  for (const char* part : {"message 41", "worker 0", "gradients", "CRC32C"}) {
    EXPECT_NE(job.coordinator->failure().find(part), std::string::npos)
        << job.coordinator->failure();
  }
  EXPECT_THROW(job.CheckRunning(), Abandoned);
}

}  // namespace
}  // namespace poolscope::trainer
