// Names of C++ as compilers write them, and what becomes of them in the store.
#include "collector/symbol.h"

#include "tests/collector/device_session.h"
#include "trace/limits.h"

namespace poolscope {
namespace {

// cuBLAS 13, libtorch and NCCL.
constexpr char kCutlass[] =
    "_ZN7cutlass7Kernel2I70cutlass_80_tensorop_bf16_s16816gemm_bgrada_bf16_128x256_32x6_nt_align8"
    "EEvNT_6ParamsE";
constexpr char kReadableCutlass[] =
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bgrada_bf16_128x256_32x6_nt_align8>"
    "(cutlass_80_tensorop_bf16_s16816gemm_bgrada_bf16_128x256_32x6_nt_align8::Params)";
constexpr char kNccl[] =
    "_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE";

TEST(Symbol, KernelsOfLibraries_AreAsTheirSourcesHaveThem) {
  EXPECT_EQ(Demangle(kCutlass), kReadableCutlass);
  EXPECT_EQ(Demangle(kNccl),
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
  EXPECT_EQ(
      Demangle("_ZN2at6native29vectorized_elementwise_kernelILi2ENS0_10AbsFunctorIaEESt5arrayIPcLm2"
               "EELb0EEEviT0_T1_"),
      "void at::native::vectorized_elementwise_kernel<2, at::native::AbsFunctor<signed char>, "
      "std::array<char*, 2ul>, false>(int, at::native::AbsFunctor<signed char>, std::array<char*, "
      "2ul>)");
}

TEST(Symbol, WhatIsNoSymbol_IsNone) {
  for (const char* name : {"", "_", "_Z", "main", "gemm(float*)", "_Zebra", "_Z4gemmPf and more",
                           "_Z9999gemm", "_ZN", "forward _Z4gemmPf"}) {
    EXPECT_EQ(Demangle(name), "") << name;
  }
  EXPECT_EQ(Demangle(std::string_view("_Z4gemmPf\0x", 11)), "gemm(float*)");
}

// A name of `levels` templates, one in the other.
std::string Nested(int levels) {
  std::string name = "_Z1fI";
  for (int i = 0; i < levels; ++i) name += "1aI";
  return name + "i" + std::string(static_cast<size_t>(levels), 'E') + "Evv";
}

TEST(Symbol, LongName_IsReadAndADeepOneEndsWell) {
  const std::string longest = Demangle(Nested(300));  // as CUTLASS writes; longer than 1024 bytes
  EXPECT_EQ(longest.size(), std::string_view("void f<int >()").size() + 300 * (2 + 2) - 1);
  EXPECT_EQ(Demangle(Nested(1010)), "");
  EXPECT_EQ(Demangle("_Z1f" + std::string(4000, 'P') + "i"), "");
  EXPECT_EQ(Demangle("_Z1f" + std::string(4000, 'F')), "");
  EXPECT_EQ(Demangle("_Z4gemm" + std::string(kMaxStringBytes, 'i')), "");
}

// A name of a few bytes that stands for a long one: as long again with each of the times.
std::string Doubled(const std::string& function, int times) {
  std::string bomb = "_Z" + std::to_string(function.size()) + function + "St4pairIiiE";
  for (int i = 0; i < times; ++i) {
    const std::string last = {'S', "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i], '_'};
    bomb += "S_I" + last + last + "E";
  }
  return bomb;
}

TEST(Symbol, NameThatStandsForGigabytes_IsLeftAsItIs) {
  EXPECT_GT(Demangle(Doubled("f", 8)).size(), 2000u);
  EXPECT_EQ(Demangle(Doubled("f", 34)), "");
}

TEST_F(Devices, NamesThatStandForMoreThanASessionMayHave_StayAsTheyAre) {
  const size_t each = Demangle(Doubled("f100", 9)).size();
  const size_t names = kMaxSymbolsBytes / each + 50;
  for (size_t i = 0; i < names; ++i) {
    const auto at = static_cast<int64_t>(i);
    Kernel(0, at, at + 1, Doubled("f" + std::to_string(100 + i), 9).c_str());
  }
  Finish();
  size_t bytes = 0;
  auto store = OpenStore();
  const auto symbols = store->Symbols();
  for (const SymbolRow& row : *symbols) bytes += store->String(row.string_id)->size();
  EXPECT_LE(bytes, kMaxSymbolsBytes);
  EXPECT_GT(bytes, kMaxSymbolsBytes - 2 * each);
  EXPECT_EQ(Stored().size(), names);
}

TEST_F(Devices, NamesOfKernels_AreReadableAndWhatTheyWereIsKept) {
  Kernel(0, 0, 100, kCutlass);
  Kernel(0, 200, 300, kCutlass);
  Kernel(0, 400, 500, "_Zebra");
  Host(kCompute, 0, 1000, Category::kInput, "_Z4gemmPf");  // a range of the job's own
  Finish();
  auto store = OpenStore();
  std::multiset<std::string> names;
  for (const StoredEvent& event : Stored()) names.insert(event.name);
  EXPECT_EQ(names, (std::multiset<std::string>{"_Z4gemmPf", "_Zebra", kReadableCutlass,
                                               kReadableCutlass}));
  const auto symbols = store->Symbols();
  ASSERT_EQ(symbols->size(), 1u);
  EXPECT_EQ(*store->String((*symbols)[0].string_id), kReadableCutlass);
  EXPECT_EQ((*symbols)[0].mangled, kCutlass);
}

TEST_F(Devices, RulesOfAMapping_MatchTheReadableName) {
  UseMapping(R"(
[[range]]
domain = "cuda"
name = "*cutlass::Kernel2<*"
means = "other_work"
)");
  Kernel(0, 0, 100, kCutlass);
  Kernel(0, 200, 500, "_Z4gemmPf");
  Finish();
  EXPECT_NEAR(Ms("compute", State::kOtherWork), 100, 1);
  EXPECT_NEAR(Ms("compute", State::kBusy), 300, 1);
}

}  // namespace
}  // namespace poolscope
