#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "advisor/report.h"
#include "tests/bench/synthetic_run.h"

// The report on 10 million events, what-if and search included, best of three; the reference is
// decoding every event of the store, which a report that read all of it would have to do.
namespace {

using namespace poolscope;
using Clock = std::chrono::steady_clock;

constexpr int64_t kEvents = 10'000'000;

int Fail(const std::string& message) {
  std::fprintf(stderr, "report_bench: %s\n", message.c_str());
  return 1;
}

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Status Fill(Store& store) {
  bench::SyntheticRun run(store, {}, "00000000000000000000000000be9c40");
  if (Status status = store.Begin(); !status) return status;
  if (Status status = run.PutRun(); !status) return status;
  int64_t made = 0;
  while (made < kEvents) {
    run.Make(200'000);
    const Result<int64_t> appended = run.Append();
    if (!appended) return appended.error();
    made += *appended;
    if (Status status = store.Commit(); !status) return status;
    if (Status status = store.Begin(); !status) return status;
  }
  if (Status status = run.Finish(); !status) return status;
  return store.Commit();
}

}  // namespace

int main() {
  std::string pattern = (std::filesystem::temp_directory_path() / "report-bench-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) return Fail("no temporary folder");
  const std::filesystem::path folder = pattern;
  int code = 0;
  {
    Result<Store> store = Store::Open(folder / "run.db", Store::Mode::kWrite);
    if (!store) return Fail(store.error().message);
    if (Status status = Fill(*store); !status) return Fail(status.error().message);
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const Clock::time_point begin = Clock::now();
      const Result<Report> report = BuildReport(*store, "");
      if (!report) return Fail(report.error().message);
      const size_t length = ReportAsText(*report).size() + ReportAsJson(*report).size();
      best = std::min(best, Since(begin));
      if (length == 0 || !report->replay_error) code = Fail("the report lacks its what-if");
    }
    const Clock::time_point begin = Clock::now();
    int64_t events = 0;
    const Status read = store->ReadEvents("00000000000000000000000000be9c40", {},
                                          [&](const TrackRow&, const EventBatch& batch) {
                                            events += static_cast<int64_t>(batch.events.size());
                                            return true;
                                          });
    if (!read) return Fail(read.error().message);
    std::printf("report on %.1f million events\t%.3f\ts\t<= 1\tdecoding all of them %.3f s\n",
                static_cast<double>(events) * 1e-6, best, Since(begin));
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return code;
}
