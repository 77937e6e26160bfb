#include "reference-trainer/memory.h"

#include <gmock/gmock.h>

#include <stdexcept>

#include "tests/reference-trainer/parse_options.h"

namespace poolscope::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

double Part(const MemoryNeed& need, const std::string& name) {
  for (const MemoryNeed::Part& part : need.parts) {
    if (part.name == name) return part.bytes;
  }
  return 0;
}

const std::string kModel = "--device emulated:a100 --model-parameters 8G ";

TEST(Memory, OfAMonolithicWorker_IsEighteenBytesAParameterAndActivations) {
  // bf16 weights 2, fp32 gradient sum 4, master weights and moments 12: as Megatron-LM keeps them.
  const MemoryNeed need = MemoryOf(Good(kModel + "--mode monolithic"), PoolRole::kCompute, 0);
  EXPECT_DOUBLE_EQ(need.total() - Part(need, "activations"), 18 * 8e9);
  EXPECT_DOUBLE_EQ(Part(need, "activations"), 34.0 * 2048 * 4096 * 36);
  const MemoryNeed fp32 =
      MemoryOf(Good(kModel + "--mode monolithic --precision fp32"), PoolRole::kCompute, 0);
  EXPECT_DOUBLE_EQ(fp32.total() - Part(fp32, "activations"), 16 * 8e9);
}

TEST(Memory, Disaggregated_LeavesTheStateToTheUpdatePool) {
  const Options options = Good(kModel + "--update-workers 4 --gradients-depth 3");
  const MemoryNeed compute = MemoryOf(options, PoolRole::kCompute, 0);
  EXPECT_DOUBLE_EQ(Part(compute, "weights") + Part(compute, "gradients"), 6 * 8e9);
  EXPECT_EQ(Part(compute, "optimizer state"), 0);
  const MemoryNeed update = MemoryOf(options, PoolRole::kUpdate, 1);
  EXPECT_DOUBLE_EQ(Part(update, "optimizer state"), 16 * 8e9 / 4);
  // Three bf16 gradients in the buffer and weights on their way out, of a quarter of the model.
  EXPECT_DOUBLE_EQ(Part(update, "messages"), (3 + 1) * 2 * 8e9 / 4);
}

TEST(Memory, SpreadOverDevices_IsDivided) {
  const auto need = [](const std::string& more) {
    return MemoryOf(Good(kModel + "--mode monolithic " + more), PoolRole::kCompute, 0).total();
  };
  EXPECT_DOUBLE_EQ(need("--devices-per-worker 8"), need("") / 8);
}

TEST(Memory, ThatDoesNotFit_IsRefusedWithWhatNeedsIt) {
  EXPECT_THAT(CheckMemory(Good(kModel + "--mode monolithic")),
              AllOf(HasSubstr("80 GB"), HasSubstr("154.3 GB"), HasSubstr("weights 16 GB"),
                    HasSubstr("optimizer state 128 GB")));
  EXPECT_EQ(CheckMemory(Good(kModel + "--update-workers 4")), "");
  EXPECT_EQ(CheckMemory(Good(kModel + "--mode monolithic --device-memory 155G")), "");
  EXPECT_EQ(CheckMemory(Good(kModel + "--mode monolithic --optimizer-offload host")), "");
  EXPECT_EQ(CheckMemory(Good("--device emulated --weight-bytes 900G")), "");  // no capacity given
  EXPECT_EQ(CheckMemory(Good("")), "");
}

TEST(Memory, OfWorkersOnOneDevice_IsAddedUp) {
  const std::string fits = kModel + "--update-workers 4";
  EXPECT_EQ(CheckMemory(Good(fits)), "");
  EXPECT_THAT(CheckMemory(Good(fits + " --shared-device")),
              AllOf(HasSubstr("compute/0"), HasSubstr("update/0"), HasSubstr("update/2")));
}

TEST(MemoryUse, ThatGrows_EndsTheRunWhenTheDeviceIsFull) {
  const Options options =
      Good("--device emulated --weight-bytes 1G --device-memory 6G --memory-leak 100M");
  // 1 GB each of weights and gradients, two messages in the buffer and one under way: 5 GB.
  ASSERT_DOUBLE_EQ(MemoryOf(options, PoolRole::kCompute, 0).total(),
                   1e9 + 1e9 + 2e9 + static_cast<double>(options.gradient_bytes));
  MemoryUse use(options, PoolRole::kCompute, 3);
  use.AtStep(0);
  use.AtStep(19);
  try {
    use.AtStep(20);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("compute/3"), HasSubstr("step 20")));
  }
  MemoryUse update(options, PoolRole::kUpdate, 0);
  update.AtStep(1000);
}

}  // namespace
}  // namespace poolscope::trainer
