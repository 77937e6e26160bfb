#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "store/store.h"
#include "tests/store/scratch.h"

// `poolscope sql` as a user runs it, in a pipe.
namespace poolscope {
namespace {

using ::poolscope::testing::Opened;
using ::poolscope::testing::Scratch;
using ::testing::HasSubstr;

class SqlCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    Store store = Opened(scratch_ / "run.db", Store::Mode::kWrite);
    ASSERT_TRUE(store.Put(RunRow{"ab01", "host", "a\tb\nc \"d\"", 5, 9, true}).ok());
    ASSERT_TRUE(store.Put(StepRow{"ab01", 0, 7, 1, 8, 2, 0.25}).ok());
    ASSERT_TRUE(store.Put(StepRow{"ab01", 1, 8, 2, 8, 2, std::nullopt}).ok());
  }

  struct Outcome {
    int code;
    std::string out, errors;
  };
  Outcome Run(const std::string& sql, const std::string& flags = "", const char* store = "run.db") {
    const std::string errors = (scratch_ / "errors").string();
    const std::string command = std::string(POOLSCOPE_PROGRAM) + " sql " +
                                (scratch_ / store).string() + " \"" + sql + "\" " + flags + " 2>" +
                                errors;
    Outcome outcome{0, "", ""};
    FILE* pipe = popen(command.c_str(), "r");
    outcome.out = All(pipe);
    outcome.code = WEXITSTATUS(pclose(pipe));
    FILE* file = fopen(errors.c_str(), "r");
    outcome.errors = All(file);
    fclose(file);
    return outcome;
  }

  static std::string All(FILE* file) {
    std::string text;
    std::array<char, 4096> buffer;
    while (const size_t bytes = fread(buffer.data(), 1, buffer.size(), file)) {
      text.append(buffer.data(), bytes);
    }
    return text;
  }

  Scratch scratch_;
};

TEST_F(SqlCommand, Pipe_GetsTabsAndOneLineARow) {
  const Outcome outcome = Run("SELECT run_id, command, start_ns FROM run");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "run_id\tcommand\tstart_ns\nab01\ta\\tb\\nc \"d\"\t5\n");
  EXPECT_EQ(outcome.errors, "");
}

TEST_F(SqlCommand, Json_IsAnArrayOfObjects) {
  const auto rows =
      nlohmann::json::parse(Run("SELECT step, loss, 'x' AS text FROM step", "--json").out);
  EXPECT_EQ(rows, nlohmann::json::parse(R"([{"step": 0, "loss": 0.25, "text": "x"},
                                            {"step": 1, "loss": null, "text": "x"}])"));
  EXPECT_EQ(nlohmann::json::parse(Run("SELECT * FROM step WHERE step = 9", "--json").out).size(),
            0u);
  EXPECT_EQ(nlohmann::json::parse(Run("SELECT command FROM run", "--json").out)[0]["command"],
            "a\tb\nc \"d\"");
}

TEST_F(SqlCommand, Mistakes_AreOneLineAndCode1) {
  for (const char* sql : {"SELEC 1", "SELECT * FROM nothing", "", "DELETE FROM step",
                          "VACUUM INTO '/dev/null/x'", "SELECT abs(-9223372036854775808)"}) {
    const Outcome outcome = Run(sql);
    EXPECT_EQ(outcome.code, 1) << sql;
    EXPECT_THAT(outcome.errors, HasSubstr("poolscope sql: ")) << sql;
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
  }
  EXPECT_EQ(Run("SELECT 1", "", "none.db").code, 1);
  EXPECT_EQ(Run("SELECT 1", "--no-such-flag").code, 2);
  EXPECT_EQ(Run("SELECT count(*) FROM step").out, "count(*)\n2\n");
}

}  // namespace
}  // namespace poolscope
