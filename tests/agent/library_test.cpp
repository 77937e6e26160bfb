// The agent as a library that strangers load.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>

#include <array>
#include <set>
#include <string>

namespace poolscope {
namespace {

std::string Output(const std::string& command) {
  std::string text;
  FILE* output = popen(command.c_str(), "r");
  std::array<char, 4096> part;
  for (size_t got; (got = fread(part.data(), 1, part.size(), output)) > 0;) {
    text.append(part.data(), got);
  }
  pclose(output);
  return text;
}

// The functions that poolscope/agent.h declares, sorted.
std::string AgentInterface() {
  return Output("grep -oE 'poolscope_agent_\\w+\\(' " POOLSCOPE_TEST_INTERFACE
                " | tr -d '(' | LC_ALL=C sort -u");
}

TEST(Library, ExportsItsEntryPointsAlone) {
  EXPECT_EQ(Output(std::string("nm -D --defined-only ") + POOLSCOPE_TEST_AGENT +
                   " | awk '{print $NF}' | LC_ALL=C sort"),
            "InitializeInjection\nInitializeInjectionNvtx2\nInitializeInjectionNvtxExtension\n"
            "ncclProfiler_v1\n"
            "ncclProfiler_v2\nncclProfiler_v3\nncclProfiler_v4\nncclProfiler_v5\n"
            "ncclProfiler_v6\nncclProfiler_v7\n" +
                AgentInterface());
}

TEST(Library, NeedsLibcAlone) {
  if (POOLSCOPE_SANITIZED) GTEST_SKIP() << "sanitizers bring their own libraries";
  const std::string needed =
      Output(std::string("readelf -dW ") + POOLSCOPE_TEST_AGENT + " | grep NEEDED");
  EXPECT_THAT(needed, testing::Not(testing::ContainsRegex("libstdc|libgcc|sqlite|fmt|spdlog")));
  EXPECT_THAT(needed, testing::HasSubstr("libc.so.6"));
}

TEST(Library, LivesOnAfterDlclose) {
  void* library = dlopen(POOLSCOPE_TEST_AGENT, RTLD_LAZY);
  ASSERT_NE(library, nullptr) << dlerror();
  void* entry = dlsym(library, "InitializeInjectionNvtx2");
  ASSERT_NE(entry, nullptr);
  dlclose(library);
  void* again = dlopen(POOLSCOPE_TEST_AGENT, RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(dlsym(again, "InitializeInjectionNvtx2"), entry);
}

TEST(Library, RefusesNullTables) {
  void* library = dlopen(POOLSCOPE_TEST_AGENT, RTLD_LAZY);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto entry =
      reinterpret_cast<int (*)(const void*)>(dlsym(library, "InitializeInjectionNvtx2"));
  EXPECT_EQ(entry(nullptr), 0);
}

}  // namespace
}  // namespace poolscope
