// What lies inside the encode stage, seen by an NVTX tool within this program.
#define NVTX_NO_IMPL
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include "reference-trainer/worker.h"
#include "tests/reference-trainer/training.h"

namespace {

int stages_begun = 0;

nvtxDomainHandle_t CreateDomain(const char*) {
  static int domain;
  return reinterpret_cast<nvtxDomainHandle_t>(&domain);
}

int Push(nvtxDomainHandle_t, const nvtxEventAttributes_t* attributes) {
  if (attributes->category == POOLSCOPE_TRANSFER) ++stages_begun;
  return 0;
}

int Initialize(NvtxGetExportTableFunc_t get_export_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size);
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(CreateDomain);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(Push);
  return 1;
}

}  // namespace

// Where NVTX looks for a tool that is linked in.
extern "C" {
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = Initialize;
}

namespace poolscope::trainer {
namespace {

class Sender : public Worker {
 public:
  explicit Sender(Job& job) : Worker(job, 0, PoolRole::kCompute, *job.compute_signals[0]) {}
  void Probe() override {}
  void Run() override {}
};

TEST(EncodeStage, HoldsTheCopyOfTheValuesFromTheirDevice) {
  Job job(Small(Mode::kSync), &Text());
  Sender sender(job);
  Message message;
  const std::vector<float> values(100, 1.5F);
  int begun_before_copy = -1;
  sender.Encode(*job.gradients, Codec::kNone, message, [&] {
    begun_before_copy = stages_begun;
    return std::span<const float>(values);
  });
  EXPECT_EQ(begun_before_copy, 1);
  EXPECT_EQ(stages_begun, 1);
  EXPECT_EQ(message.block.count, values.size());
}

}  // namespace
}  // namespace poolscope::trainer
