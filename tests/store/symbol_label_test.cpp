#include "store/symbol_label.h"

#include <gtest/gtest.h>

namespace poolscope {
namespace {

TEST(SymbolLabel, Kernel_IsItsNameAndTemplateArguments) {
  EXPECT_EQ(SymbolLabel("gemm(float*)", 80), "gemm");
  EXPECT_EQ(
      SymbolLabel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 80),
      "ncclDevKernel_AllReduce_Sum_bf16_RING_LL");
  EXPECT_EQ(SymbolLabel("void cutlass::Kernel2<cutlass_80_tensorop_128x256_nt_align8>"
                        "(cutlass_80_tensorop_128x256_nt_align8::Params)",
                        80),
            "Kernel2<cutlass_80_tensorop_128x256_nt_align8>");
  EXPECT_EQ(SymbolLabel("void at::native::vectorized_elementwise_kernel<2, "
                        "at::native::AbsFunctor<signed char>, std::array<char*, 2ul>, false>(int, "
                        "at::native::AbsFunctor<signed char>, std::array<char*, 2ul>)",
                        200),
            "vectorized_elementwise_kernel<2, AbsFunctor<signed char>, array<char*, 2ul>, false>");
  EXPECT_EQ(SymbolLabel("std::pair<int, int> a::(anonymous namespace)::f<b<c<int> > >(int)", 80),
            "f<b<c<int>>>");
}

TEST(SymbolLabel, LongName_FoldsItsInnermostArgumentsFirst) {
  const std::string name = "void f<a<b<c<double>, float>, 7>, d<e>, -1>(int)";
  EXPECT_EQ(SymbolLabel(name, 38), "f<a<b<c<double>, float>, 7>, d<e>, -1>");
  EXPECT_EQ(SymbolLabel(name, 35), "f<a<b<c<…>, float>, 7>, d<e>, -1>");
  EXPECT_EQ(SymbolLabel(name, 26), "f<a<b<…>, 7>, d<e>, -1>");
  EXPECT_EQ(SymbolLabel(name, 23), "f<a<…>, d<…>, -1>");
  EXPECT_EQ(SymbolLabel(name, 8), "f<…>");
}

TEST(SymbolLabel, LongPlainName_LosesItsMiddle) {
  EXPECT_EQ(SymbolLabel("abcdefghijklmnopqrstuvwxyz", 13), "abcde…vwxyz");
  EXPECT_EQ(SymbolLabel("abcdefghijklmnopqrstuvwxyz", 3), "…");
}

TEST(SymbolLabel, OddNames_AreNotLost) {
  EXPECT_EQ(SymbolLabel("main", 80), "main");
  EXPECT_EQ(SymbolLabel("", 80), "");
  EXPECT_EQ(SymbolLabel("(anonymous)", 80), "(anonymous)");
  EXPECT_EQ(SymbolLabel("void f<(a::E)1>(int)", 80), "f<(E)1>");
  EXPECT_EQ(SymbolLabel("f<g>>>::h<", 80), "f<g>>>::h<");
}

}  // namespace
}  // namespace poolscope
