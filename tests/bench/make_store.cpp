#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "tests/bench/synthetic_run.h"

// make_store OUT --events N [--workers W]: a store of a synthetic run, for benches and for trying
// the viewer and the report at size.
namespace {

using namespace poolscope;

Status Fill(Store& store, bench::SyntheticRun& run, int64_t events) {
  if (Status status = store.Begin(); !status.ok()) return status;
  if (Status status = run.PutRun(); !status.ok()) return status;
  int64_t made = 0;
  while (made < events) {
    run.Make(std::min<int64_t>(events - made, 200'000));
    const auto appended = run.Append();
    if (!appended.ok()) return appended.error();
    made += *appended;
    if (Status status = store.Commit(); !status.ok()) return status;
    if (isatty(STDERR_FILENO)) {
      std::fprintf(stderr, "\r%3.0f %%", 100.0 * static_cast<double>(made) / events);
    }
    if (Status status = store.Begin(); !status.ok()) return status;
  }
  if (isatty(STDERR_FILENO)) std::fprintf(stderr, "\r     \r");
  if (Status status = run.Finish(); !status.ok()) return status;
  return store.Commit();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Writes a store of a synthetic disaggregated run"};
  std::string out;
  int64_t events = 1'000'000;
  bench::RunShape shape;
  app.add_option("OUT", out, "store to write; must not exist")->required();
  app.add_option("--events", events, "how many, rounded up to whole steps")
      ->check(CLI::PositiveNumber);
  app.add_option("--workers", shape.compute_workers, "compute workers; half as many update workers")
      ->check(CLI::Range(1, 256));
  app.add_option("--seed", shape.seed, "of the jitter");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  shape.update_workers = (shape.compute_workers + 1) / 2;
  shape.micro_batches = 2 * shape.compute_workers;
  if (std::filesystem::exists(out)) {
    std::fprintf(stderr, "make_store: %s exists; remove it first\n", out.c_str());
    return 1;
  }
  auto store = Store::Open(out, Store::Mode::kWrite);
  if (!store.ok()) {
    std::fprintf(stderr, "make_store: %s\n", store.error().message.c_str());
    return 1;
  }
  const auto begin = std::chrono::steady_clock::now();
  bench::SyntheticRun run(*store, shape, "5eed0000000000000000000000000001");
  if (Status status = Fill(*store, run, events); !status.ok()) {
    std::fprintf(stderr, "make_store: %s\n", status.error().message.c_str());
    return 1;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%s: %lld steps, %.1f s of run, made in %.1f s\n", out.c_str(),
              static_cast<long long>(run.steps()),
              static_cast<double>(run.end_ns() - shape.start_ns) / 1e9, seconds);
  return 0;
}
