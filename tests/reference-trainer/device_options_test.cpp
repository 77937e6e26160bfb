#include <gmock/gmock.h>

#include "tests/reference-trainer/parse_options.h"

namespace poolscope::trainer {
namespace {

using testing::HasSubstr;

TEST(DeviceSpec, IsReadAndWrittenAlike) {
  for (const char* text :
       {"cpu", "emulated", "emulated:a100", "emulated:h200@3", "emulated@0", "cuda", "cuda:1"}) {
    const auto spec = ParseDeviceSpec(text);
    ASSERT_TRUE(std::holds_alternative<DeviceSpec>(spec)) << text;
    EXPECT_EQ(DeviceName(std::get<DeviceSpec>(spec)), text);
  }
  for (const char* text :
       {"", "gpu", "cpu@0", "emulated:", "emulated:b300", "emulated@x", "emulated:a100@256",
        "cpu:a100", "emulated@", "cuda:", "cuda:x", "cuda@1"}) {
    EXPECT_TRUE(std::holds_alternative<std::string>(ParseDeviceSpec(text))) << text;
  }
}

TEST(DeviceOptions, OfAProfile_AreThoseOfTheCostModel) {
  const Options options = Good("--device emulated:a100 --update-device emulated:host");
  EXPECT_EQ(options.devices.model.parameters, 1.3e9);
  EXPECT_EQ(options.devices.precision, Precision::kBf16);
  EXPECT_NEAR(options.forward_seconds, 0.0440586, 1e-6);
  EXPECT_NEAR(options.update_seconds, 28 * 1.3e9 / (0.8 * 409.6e9), 1e-5);
  EXPECT_EQ(options.gradient_bytes, 5'200'000'000u);
  EXPECT_EQ(options.gradients.codec, Codec::kBf16);
  EXPECT_EQ(options.weights.codec, Codec::kBf16);
}

TEST(DeviceOptions, FlagsWinOverModelAndProfiles) {
  const Options options = Good(
      "--device emulated:a100 --forward-ms 7 --weight-bytes 3M --weights-codec none "
      "--link pcie4 --weights-link nvlink3 --gradients-latency-ms 2");
  EXPECT_DOUBLE_EQ(options.forward_seconds, 0.007);
  EXPECT_NEAR(options.backward_seconds, 0.0881172, 2e-6);
  EXPECT_EQ(options.weight_bytes, 3'000'000u);
  EXPECT_EQ(options.weights.codec, Codec::kNone);
  EXPECT_DOUBLE_EQ(options.gradients.shape.bytes_per_second, 0.8 * 31.5e9);
  EXPECT_EQ(options.gradients.shape.latency_ns, 2'000'000);
  EXPECT_DOUBLE_EQ(options.weights.shape.bytes_per_second, 0.8 * 300e9);
  EXPECT_EQ(options.weights.shape.latency_ns, 2'500);
}

TEST(DeviceOptions, TimeScale_KeepsAllRatios) {
  const std::string line =
      "--device emulated:h100 --link ib-ndr --update-ms 30 --gradients-latency-ms 4 "
      "--gradients-codec topk:0.1";
  const Options real = Good(line), fast = Good(line + " --time-scale 0.1");
  EXPECT_NEAR(fast.forward_seconds / real.forward_seconds, 0.1, 1e-9);
  EXPECT_NEAR(fast.update_seconds / real.update_seconds, 0.1, 1e-9);
  const auto wire_seconds = [](const Options& options) {
    return static_cast<double>(options.gradient_bytes) / options.gradients.shape.bytes_per_second;
  };
  EXPECT_NEAR(wire_seconds(fast) / wire_seconds(real), 0.1, 1e-9);
  EXPECT_EQ(fast.gradients.shape.latency_ns, 400'000);
  EXPECT_EQ(fast.gradient_bytes, real.gradient_bytes);
}

TEST(DeviceOptions, WorkersOfOneNumberAreOnOneDevice) {
  const Options one = Good("--device emulated@2");
  EXPECT_EQ(DeviceOf(one, PoolRole::kCompute, 0), DeviceOf(one, PoolRole::kUpdate, 5));
  const Options pools = Good("--compute-device emulated@0 --update-device emulated@1");
  EXPECT_EQ(DeviceOf(pools, PoolRole::kCompute, 0), DeviceOf(pools, PoolRole::kCompute, 1));
  EXPECT_NE(DeviceOf(pools, PoolRole::kCompute, 0), DeviceOf(pools, PoolRole::kUpdate, 0));
  const Options pairs = Good("--device emulated --shared-device --update-workers 4");
  EXPECT_EQ(DeviceOf(pairs, PoolRole::kCompute, 1), DeviceOf(pairs, PoolRole::kUpdate, 3));
  EXPECT_NE(DeviceOf(pairs, PoolRole::kCompute, 1), DeviceOf(pairs, PoolRole::kUpdate, 2));
  const Options own = Good("--device emulated");
  EXPECT_NE(DeviceOf(own, PoolRole::kCompute, 0), DeviceOf(own, PoolRole::kUpdate, 0));
}

TEST(DeviceOptions, ThatDoNotGoTogether_AreRefused) {
  EXPECT_THAT(Error("--device emulated --compute-device cpu"), HasSubstr("both pools or none"));
  EXPECT_THAT(Error("--device emulated:a100 --update-device emulated"), HasSubstr("profile"));
  EXPECT_THAT(Error("--forward-ms 3"), HasSubstr("--forward-ms needs --device emulated"));
  EXPECT_THAT(Error("--time-scale 0.1"), HasSubstr("--time-scale needs"));
  EXPECT_THAT(Error("--device emulated --model-parameters 1G"), HasSubstr("emulated:PROFILE"));
  EXPECT_THAT(Error("--device emulated:v1"), HasSubstr("a100, h100, h200, host"));
  EXPECT_THAT(Error("--shared-device"), HasSubstr("--shared-device needs --device emulated"));
  EXPECT_THAT(Error("--device emulated@0 --shared-device"), HasSubstr("excludes"));
  EXPECT_THAT(Error("--device emulated --mode monolithic --shared-device"),
              HasSubstr("one worker"));
  EXPECT_THAT(Error("--compute-device emulated:a100@1 --update-device emulated:h100@1"),
              HasSubstr("one device cannot be emulated:a100@1 and emulated:h100@1"));
  EXPECT_THAT(Error("--device emulated --memory-leak 1M"), HasSubstr("--device-memory"));
  EXPECT_THAT(Error("--link token-ring"), HasSubstr("nvlink3"));
}

TEST(CudaOptions, OfAPool_AreThoseOfItsWorkers) {
  const Options options = Good(
      "--compute-device cuda:2 --update-device cpu --precision bf16 --cuda-graphs --gemm own "
      "--stream-priority compute");
  const CudaWorker worker = CudaWorkerOf(options, PoolRole::kCompute, 1);
  EXPECT_EQ(worker.device, 2);
  EXPECT_TRUE(worker.bf16 && worker.graphs && worker.high_priority);
  EXPECT_EQ(worker.gemm, GemmKind::kOwn);
  EXPECT_EQ(worker.name, "compute/1");
  EXPECT_FALSE(CudaWorkerOf(Good("--device cuda"), PoolRole::kCompute, 0).bf16);
}

TEST(CudaOptions, WithoutAnEffect_AreRefused) {
  EXPECT_THAT(Error("--gemm own"), HasSubstr("--gemm needs a pool on cuda"));
  EXPECT_THAT(Error("--update-device cuda --cuda-graphs"), HasSubstr("--cuda-graphs needs"));
  EXPECT_THAT(Error("--compute-device cuda --stream-priority update"), HasSubstr("needs a pool"));
  EXPECT_THAT(Error("--update-device cuda --precision bf16"), HasSubstr("compute on cuda"));
  EXPECT_THAT(Error("--device cuda --forward-ms 3"), HasSubstr("needs --device emulated"));
  EXPECT_THAT(Error("--compute-device cuda --update-device emulated"), HasSubstr("both pools"));
}

TEST(CudaOptions, ThatADeviceCannotDo_AreRefused) {
  EXPECT_THAT(Error("--device cuda --experts 4"), HasSubstr("--experts does not go with"));
  EXPECT_THAT(Error("--transport nccl"), HasSubstr("both pools on cuda"));
  EXPECT_THAT(Error("--transport nccl --compute-device cuda"), HasSubstr("both pools on cuda"));
  EXPECT_THAT(Error("--transport nccl --device cuda --mode monolithic"), HasSubstr("needs --mode"));
  EXPECT_THAT(Error("--transport nccl --device cuda --weights-latency-ms 1"),
              HasSubstr("the speed of its wire"));
  EXPECT_THAT(Error("--transport nccl --device cuda --gradients-loss 0.1"), HasSubstr("nothing"));
  EXPECT_THAT(Error("--device cuda --weights-mode fetch"), HasSubstr("--weights-mode fetch"));
  EXPECT_THAT(Error("--device cuda --optimizer-offload host"), HasSubstr("--update-device cpu"));
}

}  // namespace
}  // namespace poolscope::trainer
